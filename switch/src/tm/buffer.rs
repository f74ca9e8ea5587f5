//! The shared buffer: pools, and accounts in them.
//!
//! An account is a priority group (ingress view) or a queue (egress view); as in SAI the same memory is counted once in
//! each view. A charge fills the account's reserved bytes first, then the pool's shared bytes up to the account's
//! threshold, then (lossless only) headroom. A release empties them in the opposite order, so packets need no record of
//! where their bytes were charged.
//!
//! Headroom is for frames that arrive after XOFF was decided. The frame that makes the account reach its threshold is
//! therefore charged to shared bytes, and may overshoot the threshold by less than one frame; the pool's own size is
//! never overshot.

use crate::units::PoolAlpha;

use super::id::{DropReason, PoolId};

/// Upper bound of the shared bytes of one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A fixed number of bytes.
    Static(u64),
    /// `pool_alpha` x the free shared bytes of the pool (Choudhury and Hahne, 1998; SAI `DYNAMIC_TH`).
    Dynamic(PoolAlpha),
}

impl Limit {
    /// The threshold in bytes, with `free` shared bytes left in the pool.
    #[inline]
    pub fn bytes(self, free: u64) -> u64 {
        match self {
            Limit::Static(bytes) => bytes,
            Limit::Dynamic(alpha) => alpha.of(free),
        }
    }

    /// Shared bytes at the threshold while the pool of `shared` bytes is otherwise empty: for a
    /// dynamic threshold x = alpha (S - x), so x = S alpha / (1 + alpha).
    fn alone(self, shared: u64) -> u64 {
        match self {
            Limit::Static(bytes) => bytes.min(shared),
            Limit::Dynamic(alpha) => {
                let (numerator, denominator) = alpha.terms();
                let (numerator, denominator) = (u128::from(numerator), u128::from(denominator));
                let x = u128::from(shared) * numerator / (denominator + numerator);
                u64::try_from(x).unwrap_or(u64::MAX)
            }
        }
    }

    #[inline]
    fn reached(self, used: u64, free: u64) -> bool {
        match self {
            Limit::Static(bytes) => used >= bytes,
            Limit::Dynamic(alpha) => alpha.reached(used, free),
        }
    }
}

/// When a priority group in XOFF sends XON to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xon {
    /// When the group holds at most this many bytes.
    AtBytes(u64),
    /// When it holds this many bytes less than its current XOFF threshold (for dynamic thresholds).
    BelowXoff(u64),
}

impl Xon {
    /// Level in bytes at which the peer may resume, if XOFF is at `xoff_at` bytes.
    pub fn at(self, xoff_at: u64) -> u64 {
        match self {
            Xon::AtBytes(bytes) => bytes,
            Xon::BelowXoff(bytes) => xoff_at.saturating_sub(bytes),
        }
    }
}

/// The lossless part of a priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LosslessConfig {
    /// Bytes for frames that arrive after XOFF.
    pub headroom_bytes: u64,
    /// When to send XON.
    pub xon: Xon,
}

/// A priority group's or queue's share of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountConfig {
    /// The pool it draws from.
    pub pool: PoolId,
    /// Bytes reserved for it alone.
    pub reserved_bytes: u64,
    /// Upper bound of its shared bytes.
    pub limit: Limit,
}

impl AccountConfig {
    /// Bytes that it holds at its threshold, while its pool of `shared_bytes` is otherwise empty.
    pub fn alone(&self, shared_bytes: u64) -> u64 {
        self.reserved_bytes.saturating_add(self.limit.alone(shared_bytes))
    }
}

/// The sizes of a pool. Reserved bytes belong to accounts and are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolConfig {
    /// Bytes shared by all accounts of the pool.
    pub shared_bytes: u64,
    /// Bytes of headroom in total: the sum over groups, or less for a shared headroom pool.
    pub headroom_bytes: u64,
}

/// Occupancy and peak of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// Shared bytes in use.
    pub shared: u64,
    /// Headroom bytes in use.
    pub headroom: u64,
    /// Reserved bytes of all its accounts in use.
    pub reserved: u64,
    /// Highest sum of the three since the last clear.
    pub peak: u64,
}

/// A pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) config: PoolConfig,
    pub(crate) used: PoolUse,
}

impl Pool {
    pub(crate) fn new(config: PoolConfig) -> Pool {
        Pool { config, used: PoolUse::default() }
    }

    #[inline]
    pub(crate) fn free_shared(&self) -> u64 {
        self.config.shared_bytes.saturating_sub(self.used.shared)
    }

    #[inline]
    fn note_peak(&mut self) {
        self.used.peak =
            self.used.peak.max(self.used.shared + self.used.headroom + self.used.reserved);
    }
}

/// Occupancy and peaks of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountUse {
    /// Reserved bytes in use.
    pub reserved: u64,
    /// Shared bytes in use.
    pub shared: u64,
    /// Headroom bytes in use.
    pub headroom: u64,
    /// Highest occupancy since the last clear.
    pub peak: u64,
    /// Highest headroom since the last clear.
    pub peak_headroom: u64,
}

impl AccountUse {
    /// All bytes in use.
    #[inline]
    pub fn total(&self) -> u64 {
        self.reserved + self.shared + self.headroom
    }
}

/// The bytes of a group or a queue in its pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) config: AccountConfig,
    pub(crate) used: AccountUse,
}

impl Account {
    pub(crate) fn new(config: AccountConfig) -> Account {
        Account { config, used: AccountUse::default() }
    }

    /// Splits a charge into reserved and other bytes.
    #[inline]
    fn split(&self, bytes: u64) -> (u64, u64) {
        let reserved = bytes.min(self.config.reserved_bytes.saturating_sub(self.used.reserved));
        (reserved, bytes - reserved)
    }

    /// Checks that a lossy charge fits: inside reserved, or inside both threshold and pool.
    #[inline]
    pub(crate) fn admits(
        &self,
        pool: &Pool,
        bytes: u64,
        full: DropReason,
    ) -> Result<(), DropReason> {
        let (_, shared) = self.split(bytes);
        if shared == 0 {
            return Ok(());
        }
        let free = pool.free_shared();
        if shared > free {
            return Err(DropReason::PoolExhausted);
        }
        if self.used.shared + shared > self.config.limit.bytes(free) {
            return Err(full);
        }
        Ok(())
    }

    /// Charges bytes that [`Account::admits`] accepted.
    #[inline]
    pub(crate) fn charge(&mut self, pool: &mut Pool, bytes: u64) {
        let (reserved, shared) = self.split(bytes);
        self.put(pool, reserved, shared, 0);
    }

    /// Charges a lossless group, in headroom if it is over its threshold; `xoff` is its current state.
    #[inline]
    pub(crate) fn charge_lossless(
        &mut self,
        pool: &mut Pool,
        bytes: u64,
        lossless: &LosslessConfig,
        xoff: bool,
    ) -> Result<(), DropReason> {
        let (reserved, rest) = self.split(bytes);
        let free = pool.free_shared();
        let may_share = !xoff || (self.used.headroom == 0 && !self.at_threshold(pool));
        if rest == 0 || (may_share && rest <= free) {
            self.put(pool, reserved, rest, 0);
            return Ok(());
        }
        let group_left = lossless.headroom_bytes.saturating_sub(self.used.headroom);
        let pool_left = pool.config.headroom_bytes.saturating_sub(pool.used.headroom);
        if rest > group_left.min(pool_left) {
            return Err(DropReason::HeadroomExhausted);
        }
        self.put(pool, reserved, 0, rest);
        Ok(())
    }

    #[inline]
    fn put(&mut self, pool: &mut Pool, reserved: u64, shared: u64, headroom: u64) {
        self.used.reserved += reserved;
        self.used.shared += shared;
        self.used.headroom += headroom;
        pool.used.reserved += reserved;
        pool.used.shared += shared;
        pool.used.headroom += headroom;
        self.used.peak = self.used.peak.max(self.used.total());
        self.used.peak_headroom = self.used.peak_headroom.max(self.used.headroom);
        pool.note_peak();
    }

    /// Releases bytes: headroom first, then shared, then reserved.
    #[inline]
    pub(crate) fn release(&mut self, pool: &mut Pool, bytes: u64) {
        let headroom = bytes.min(self.used.headroom);
        let shared = (bytes - headroom).min(self.used.shared);
        let reserved = (bytes - headroom - shared).min(self.used.reserved);
        debug_assert_eq!(headroom + shared + reserved, bytes, "released more than was charged");
        self.used.headroom -= headroom;
        self.used.shared -= shared;
        self.used.reserved -= reserved;
        pool.used.headroom -= headroom;
        pool.used.shared -= shared;
        pool.used.reserved -= reserved;
    }

    #[inline]
    fn at_threshold(&self, pool: &Pool) -> bool {
        self.config.limit.reached(self.used.shared, pool.free_shared())
    }

    /// True when XOFF is due: reserved bytes are full, and the shared threshold is reached or
    /// headroom is in use.
    #[inline]
    pub(crate) fn wants_xoff(&self, pool: &Pool) -> bool {
        self.used.headroom > 0
            || (self.used.reserved >= self.config.reserved_bytes && self.at_threshold(pool))
    }

    /// Occupancy at which XOFF is sent, at the current level of the pool.
    pub(crate) fn xoff_at_bytes(&self, pool: &Pool) -> u64 {
        self.config.reserved_bytes.saturating_add(self.config.limit.bytes(pool.free_shared()))
    }

    /// True when a paused group may resume.
    pub(crate) fn wants_xon(&self, pool: &Pool, xon: Xon) -> bool {
        let resume_at = xon.at(self.xoff_at_bytes(pool));
        let total = self.used.total();
        total == 0 || (self.used.headroom == 0 && total <= resume_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(reserved_bytes: u64, limit: Limit) -> Account {
        Account::new(AccountConfig { pool: PoolId(0), reserved_bytes, limit })
    }

    fn pool(shared_bytes: u64, headroom_bytes: u64) -> Pool {
        Pool::new(PoolConfig { shared_bytes, headroom_bytes })
    }

    #[test]
    fn reserved_then_shared_then_headroom_and_back() {
        let mut pool = pool(10_000, 2_000);
        let mut group = account(1_000, Limit::Static(3_000));
        let lossless = LosslessConfig { headroom_bytes: 2_000, xon: Xon::AtBytes(2_000) };
        let mut xoff = false;
        let mut states = Vec::new();
        for _ in 0..6 {
            let result = group.charge_lossless(&mut pool, 1_000, &lossless, xoff);
            xoff |= group.wants_xoff(&pool);
            let used = group.used;
            states.push((result.is_ok(), used.reserved, used.shared, used.headroom, xoff));
        }
        let expected = [
            (true, 1_000, 0, 0, false),
            (true, 1_000, 1_000, 0, false),
            (true, 1_000, 2_000, 0, false),
            (true, 1_000, 3_000, 0, true),
            (true, 1_000, 3_000, 1_000, true),
            (true, 1_000, 3_000, 2_000, true),
        ];
        assert_eq!(states, expected);
        let refused = group.charge_lossless(&mut pool, 1, &lossless, xoff);
        assert_eq!(refused, Err(DropReason::HeadroomExhausted));
        group.release(&mut pool, 2_500);
        assert_eq!((group.used.headroom, group.used.shared), (0, 2_500));
        assert!(!group.wants_xon(&pool, lossless.xon));
        group.release(&mut pool, 1_500);
        assert!(group.wants_xon(&pool, lossless.xon));
        assert_eq!((group.used.peak, group.used.peak_headroom), (6_000, 2_000));
    }

    #[test]
    fn dynamic_threshold_shrinks_as_the_pool_fills() {
        let mut pool = pool(9_000, 0);
        let alpha = Limit::Dynamic(PoolAlpha::power_of_two(0).unwrap());
        let (mut first, mut second) = (account(0, alpha), account(0, alpha));
        let fill = |account: &mut Account, pool: &mut Pool| {
            while account.admits(pool, 1, DropReason::QueueThreshold).is_ok() {
                account.charge(pool, 1);
            }
            account.used.shared
        };
        // alpha 1: one class takes B/2, the next half of what is left (B x a / (1 + n a) at balance).
        assert_eq!(fill(&mut first, &mut pool), 4_500);
        assert_eq!(fill(&mut second, &mut pool), 2_250);
        assert_eq!(pool.free_shared(), 2_250);
    }

    /// Buffer arithmetic of DCQCN (SIGCOMM 2015, section 4): n paused ports of 8 classes with alpha = beta/8
    /// each get t_PFC = beta (B - headroom - s) / 8.
    #[test]
    fn dynamic_pfc_threshold_of_the_dcqcn_paper() {
        let (buffer, headroom) = (12_000_000u64, 8 * 32 * 22_400u64);
        let free = buffer - headroom;
        assert_eq!(free / (8 * 32), 24_475);
        let beta_over_8 = PoolAlpha::new(8, 8).unwrap();
        assert_eq!(Limit::Dynamic(beta_over_8).bytes(free), free);
        assert_eq!(8 * free / (8 * 32 * 9), 21_755);
    }
}
