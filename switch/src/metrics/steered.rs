//! Series of the clients of the switch: streams, requests, packets, digests, the store.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::Value::{Counter, Gauge, Nanoseconds};
use super::{Family, Labels, families, family};
use crate::core::Statistics;
use crate::stats::{ControllersReport, DigestReport, RequestReport, StorageReport};

const CONTROLLERS: &[Family<ControllersReport>] = &[
    family("p4runtime_streams", "Controllers with an open stream.", Gauge(|c| Some(c.streams))),
    family("p4runtime_primaries", "Of these, primaries.", Gauge(|c| Some(c.primaries))),
    family(
        "p4runtime_primary_changes",
        "Times that a role got another primary, or lost it.",
        Counter(|c| c.primary_changes),
    ),
    family("p4runtime_updates", "Updates of writes, done or not.", Counter(|c| c.updates)),
    family("p4runtime_sent_packets", "Packets in: sent to primaries.", Counter(|c| c.packets_in)),
    family(
        "p4runtime_dropped_packets",
        "Packets in that found no primary, or one that does not read.",
        Counter(|c| c.packets_in_dropped),
    ),
    family("p4runtime_received_packets", "Packets out.", Counter(|c| c.packets_out)),
    family(
        "p4runtime_refused_packets",
        "Packets out that were refused.",
        Counter(|c| c.packets_out_refused),
    ),
    family(
        "p4runtime_lost_notices",
        "Packets, digests and notices that came faster than they were passed on.",
        Counter(|c| c.notices_lost),
    ),
];

const REQUEST: &[Family<RequestReport>] =
    &[family("p4runtime_requests", "Requests by kind and status.", Counter(|r| r.requests))];

const DIGEST: &[Family<DigestReport>] = &[
    family("digest_waiting_messages", "Messages that wait for a list.", Gauge(|d| Some(d.waiting))),
    family(
        "digest_unacknowledged_messages",
        "Messages that wait for an acknowledgement.",
        Gauge(|d| Some(d.unacknowledged)),
    ),
    family("digest_lists", "Lists that were sent.", Counter(|d| d.lists)),
    family("digest_sent_messages", "Messages of these.", Counter(|d| d.sent)),
    family(
        "digest_acknowledged_messages",
        "Of these, acknowledged, where the digest has an ack_timeout_ns.",
        Counter(|d| d.acknowledged),
    ),
    family(
        "digest_expired_messages",
        "Of these, not acknowledged in time.",
        Counter(|d| d.expired),
    ),
    family(
        "digest_dropped_messages",
        "Of these, without a primary that reads.",
        Counter(|d| d.dropped),
    ),
];

const STORAGE: &[Family<StorageReport>] = &[
    family("storage_requests", "Requests that are kept.", Counter(|s| s.requests)),
    family("storage_commits", "Commits, which requests share.", Counter(|s| s.commits)),
    family("storage_records", "Records written or removed.", Counter(|s| s.records)),
    family("storage_written_bytes", "Bytes of these.", Counter(|s| s.bytes)),
    family("storage_commit_seconds", "Until the disk has them.", Nanoseconds(|s| s.commit_ns)),
    family("storage_errors", "After one nothing is written any more.", Counter(|s| s.errors)),
];

/// All families; those without items have no samples.
pub(super) fn encode(out: &mut DescriptorEncoder<'_>, statistics: &Statistics) -> fmt::Result {
    let controllers = || statistics.controllers.iter();
    let all = controllers().map(|c| (Labels::new(), c));
    families(out, CONTROLLERS, &all.collect::<Vec<_>>())?;
    let request = |request: &RequestReport| {
        vec![("kind", request.kind.to_owned()), ("status", request.status.to_owned())]
    };
    let requests = controllers().flat_map(|c| &c.requests).map(|r| (request(r), r));
    families(out, REQUEST, &requests.collect::<Vec<_>>())?;
    let digests = controllers().flat_map(|c| &c.digests);
    let digests = digests.map(|d| (vec![("digest", d.digest.clone())], d));
    families(out, DIGEST, &digests.collect::<Vec<_>>())?;
    let storage = statistics.storage.iter().map(|s| (Labels::new(), s));
    families(out, STORAGE, &storage.collect::<Vec<_>>())
}
