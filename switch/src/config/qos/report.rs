//! The output of `wireyard check --config`: the computed thresholds, and their problems.

use std::fmt;

use serde::Serialize;
use wireyard_pipeline::diag::SHOWN_MAX;

use crate::units::{Bytes, Probability};

use super::headroom::HeadroomPart;

/// A contradiction or a weak promise, with its place and a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Its part of the configuration ("port swp1, priority group 3").
    pub place: String,
    /// The message, with the numbers and a remedy.
    pub message: String,
    /// File, line and column, if it is in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

impl Problem {
    /// A problem, without its place in a file.
    pub fn new(place: &str, message: String) -> Problem {
        Problem { place: place.to_owned(), message, at: None }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        self.at.iter().try_for_each(|at| write!(f, " ({at})"))
    }
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolReport {
    /// Name.
    pub name: String,
    /// "ingress" or "egress".
    pub direction: &'static str,
    /// All of it.
    pub size_bytes: u64,
    /// Sum of the reserved bytes of its groups or queues.
    pub reserved_bytes: u64,
    /// Headroom: shared, or the sum over groups.
    pub headroom_bytes: u64,
    /// The rest.
    pub shared_bytes: u64,
}

/// A lossless priority group of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupReport {
    /// Port.
    pub port: String,
    /// Priority group.
    pub group: u8,
    /// Buffer profile.
    pub profile: String,
    /// PFC priorities it pauses.
    pub priorities: Vec<u8>,
    /// Reserved bytes.
    pub reserved_bytes: u64,
    /// Occupancy at XOFF while the pool is otherwise empty.
    pub xoff_at_bytes: u64,
    /// Occupancy at XOFF while all lossless groups of the pool are at their threshold.
    pub xoff_at_full_bytes: u64,
    /// Occupancy at XON while the pool is otherwise empty.
    pub xon_at_bytes: u64,
    /// Configured headroom.
    pub headroom_bytes: u64,
    /// Headroom by the formula; `None` for a port without a rate.
    pub headroom_needed_bytes: Option<u64>,
    /// The terms of the formula.
    pub headroom_parts: Vec<HeadroomPart>,
}

/// A queue with a congestion point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueReport {
    /// Port.
    pub port: String,
    /// Queue.
    pub queue: u8,
    /// WRED profile.
    pub wred_profile: String,
    /// Kmin of green packets.
    pub kmin_bytes: u64,
    /// Kmax of green packets.
    pub kmax_bytes: u64,
    /// Pmax of green packets, parts per million.
    pub pmax_ppm: u64,
    /// Most bytes that can wait before tail drop, with the pool otherwise empty.
    pub limit_bytes: u64,
}

/// The computed thresholds with all problems and warnings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Pools, by name.
    pub pools: Vec<PoolReport>,
    /// Lossless priority groups, by port and number.
    pub groups: Vec<GroupReport>,
    /// Queues with a congestion point.
    pub queues: Vec<QueueReport>,
    /// Contradictions: the configuration is refused.
    pub problems: Vec<Problem>,
    /// Weaknesses that are permitted.
    pub warnings: Vec<Problem>,
}

impl Report {
    /// The problems, without the thresholds.
    pub fn refusal(&self) -> String {
        let errors = self.problems.iter().take(SHOWN_MAX);
        let mut lines: Vec<String> = errors.map(Problem::to_string).collect();
        if self.problems.len() > SHOWN_MAX {
            lines.push(format!("... and {} more", self.problems.len() - SHOWN_MAX));
        }
        lines.push("`wireyard check` with the same program and --config shows the pools as they are divided".to_owned());
        lines.join("\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = |bytes: u64| Bytes::new(bytes).to_string();
        for pool in &self.pools {
            writeln!(
                f,
                "pool {} ({}): {} = reserved {} + headroom {} + shared {}",
                pool.name,
                pool.direction,
                b(pool.size_bytes),
                b(pool.reserved_bytes),
                b(pool.headroom_bytes),
                b(pool.shared_bytes)
            )?;
        }
        for group in &self.groups {
            write!(
                f,
                "port {} priority group {} ({}): xoff at {} ({} when all are full), xon at {}, headroom {}",
                group.port,
                group.group,
                group.profile,
                b(group.xoff_at_bytes),
                b(group.xoff_at_full_bytes),
                b(group.xon_at_bytes),
                b(group.headroom_bytes)
            )?;
            let Some(needed) = group.headroom_needed_bytes else {
                writeln!(f)?;
                continue;
            };
            writeln!(f, ", formula {}", b(needed))?;
            for part in &group.headroom_parts {
                writeln!(f, "    {:>10}  {}", part.bytes, part.name)?;
            }
        }
        for queue in &self.queues {
            writeln!(
                f,
                "port {} queue {} ({}): kmin {}, kmax {}, pmax {}, limit {}",
                queue.port,
                queue.queue,
                queue.wred_profile,
                b(queue.kmin_bytes),
                b(queue.kmax_bytes),
                Probability::ratio(queue.pmax_ppm, 1_000_000).unwrap_or_default(),
                b(queue.limit_bytes)
            )?;
        }
        let lists = [("warning", &self.warnings), ("error", &self.problems)];
        for (word, problems) in lists {
            problems.iter().take(SHOWN_MAX).try_for_each(|one| writeln!(f, "{word}: {one}"))?;
            if problems.len() > SHOWN_MAX {
                writeln!(f, "... and {} more, which are not shown", problems.len() - SHOWN_MAX)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Report {}
