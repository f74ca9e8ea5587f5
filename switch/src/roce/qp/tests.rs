mod attrs;
mod channel;
mod naks;
mod random;
mod reliable;
mod unreliable;
