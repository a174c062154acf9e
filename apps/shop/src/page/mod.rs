//! The front page: one sale, its numbers, and a button. It works without its script, by reloading.

mod assets;
mod form;
mod live;
mod show;
mod view;

pub(crate) use assets::{script, style};
pub(crate) use form::buy;
pub(crate) use live::{Live, live};
pub(crate) use show::show;
