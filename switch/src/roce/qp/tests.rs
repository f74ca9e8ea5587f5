mod attrs;
mod channel;
mod naks;
mod random;
mod reliable;
mod requests;
mod selective;
mod unreliable;
