//! A small shop: orders, and a flash sale.
