//! A small shop: orders, and a flash sale.

pub mod buyers;
pub mod config;
pub mod database;
pub mod orders;
mod page;
pub mod payment;
pub mod sale;
pub mod serve;
pub mod web;
