//! The front page: one sale, its numbers, and a button. It works without its script, by reloading.

mod assets;
mod form;
mod live;
mod show;
mod view;
mod who;

pub(crate) use assets::{script, style};
pub(crate) use form::buy;
pub(crate) use live::{Live, live, stock};
pub(crate) use show::show;
