//! A small shop: orders, and a flash sale.

pub mod database;
pub mod sale;
