mod attrs;
mod channel;
mod naks;
mod random;
mod reliable;
mod selective;
mod unreliable;
