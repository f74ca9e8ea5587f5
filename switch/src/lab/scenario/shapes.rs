//! The keys of a scenario: those that the reader accepts and the JSON Schema has.

use wireyard_pipeline::source::shape::{MapShape, Shape, key, needed};

use crate::config::QOS;
use crate::lab::workload::{Algorithm, Operation};
use Shape::{Choice, Count, Either, Flag, List, Map, MapOf, Name, OneOrMore, Real, Text};

/// A scenario file.
pub static SCENARIO: MapShape = MapShape {
    name: "scenario",
    what: "a scenario",
    keys: &[
        needed("lab", Name, "Its name."),
        key("about", Text, "What it shows, in a paragraph or two."),
        key("seed", Count, "Seed of everything random; 1 when absent."),
        needed("duration", Text, "How long it runs: `60 ms`."),
        key("warm_up", Text, "Figures count from here on; 0 when absent."),
        key(
            "dilate",
            Count,
            "So many times slower: rates divided, times multiplied, of all that is written here but `expect`.",
        ),
        key("sample", Text, "Time between samples; 10 us when absent."),
        key("spectrum_window", Count, "Samples in a window of the spectrum; 2048 when absent."),
        key("link", Map(&LINK), "What every link is that does not say otherwise."),
        needed("topology", Map(&TOPOLOGY), "Hosts, switches and links."),
        key("switch", Map(&SWITCH), "What every switch is."),
        key("host", Map(&HOST), "What every host is."),
        key("hosts", List(&Map(&OWN_HOST)), "Hosts that differ from `host`, and in what."),
        key("flows", OneOrMore(&Map(&FLOW)), "Who sends what to whom."),
        key(
            "collectives",
            OneOrMore(&Map(&COLLECTIVE)),
            "Operations of many hosts, whose steps wait for each other.",
        ),
        key("faults", List(&Map(&FAULT)), "What goes wrong, or changes."),
        key("captures", MapOf(&Count), "Links that are captured: most frames kept."),
        key("fails", Choice(CHECKS), "The check that this scenario is made to break."),
        key("expect", MapOf(&Text), "Figures and what must be true of them."),
    ],
};

/// The checks that a scenario may be made to break.
pub(super) const CHECKS: &[&str] =
    &["conservation", "lossless", "pauses", "rates", "order", "marking", "liveness"];

/// The keys of a link, after that of its place.
macro_rules! link_keys {
    ($($first:expr),* $(,)?) => {
        &[
            $($first,)*
            key("rate", Text, "Bit rate; 100 Gbit/s when absent."),
            key("delay", Text, "From last bit out to last bit in; 1 us when absent."),
            key("mtu", Text, "Longest frame without check sequence; 9216 B when absent."),
            key("loss", Text, "Share of frames that never arrive."),
            key("corruption", Text, "Share of frames that arrive with a bit wrong."),
            key("reordering", Text, "Share of frames that arrive late."),
            key("reorder_by", Text, "How late; 10 us when absent."),
        ]
    };
}

/// What links have in common.
pub(super) static LINK: MapShape = MapShape { name: "link", what: "a link", keys: link_keys![] };

/// A link of a list.
pub(super) static JOINED_LINK: MapShape = MapShape {
    name: "joined_link",
    what: "a link of the list",
    keys: link_keys![needed("ends", List(&Name), "The two nodes.")],
};

/// One of the generators, or nodes and links by name.
pub(super) static TOPOLOGY: MapShape = MapShape {
    name: "topology",
    what: "a topology",
    keys: &[
        key("incast", Map(&INCAST), "N senders, one switch, one receiver."),
        key("dumbbell", Map(&DUMBBELL), "N hosts on either side of one link."),
        key("parking_lot", Map(&PARKING_LOT), "A row of switches, with cross traffic on each hop."),
        key("leaf_spine", Map(&LEAF_SPINE), "Leaves with hosts, every leaf joined to every spine."),
        key("fat_tree", Map(&FAT_TREE), "A fat tree of k-port switches with k^3/4 hosts."),
        key("ring", Map(&RING), "Switches in a ring, one host on each."),
        key("file", Text, "Nodes and links from a topology file of HPCC's simulator."),
        key("hosts", OneOrMore(&Name), "Hosts by name."),
        key("switches", OneOrMore(&Name), "Switches by name."),
        key("links", List(&Map(&JOINED_LINK)), "Links by their ends."),
        key("bottleneck", List(&Name), "The queue in question: switch, neighbour it sends to."),
    ],
};

pub(super) static INCAST: MapShape = MapShape {
    name: "incast",
    what: "an incast",
    keys: &[
        needed("senders", Count, "Hosts `h1`, `h2`, ...: group `senders`."),
        key("last_hop", Map(&LINK), "The link to the receiver `sink`."),
    ],
};

pub(super) static DUMBBELL: MapShape = MapShape {
    name: "dumbbell",
    what: "a dumbbell",
    keys: &[
        needed("pairs", Count, "Hosts `a1`.. (group `left`) and `b1`.. (group `right`)."),
        key("middle", Map(&LINK), "The link between the switches `s1` and `s2`."),
    ],
};

pub(super) static PARKING_LOT: MapShape = MapShape {
    name: "parking_lot",
    what: "a parking lot",
    keys: &[
        needed("hops", Count, "Links between switches; hosts `long`, `end`, `x1`.., `y1`..."),
        key("middle", Map(&LINK), "The links between the switches."),
    ],
};

pub(super) static LEAF_SPINE: MapShape = MapShape {
    name: "leaf_spine",
    what: "a leaf-spine fabric",
    keys: &[
        needed("leaves", Count, "Leaf switches `leaf1`..."),
        needed("spines", Count, "Spine switches `spine1`..."),
        needed("hosts", Count, "Hosts on each leaf, `h1`... through all."),
        key("uplink", Map(&LINK), "The links between leaves and spines."),
    ],
};

pub(super) static FAT_TREE: MapShape = MapShape {
    name: "fat_tree",
    what: "a fat tree",
    keys: &[needed("k", Count, "Ports of a switch, an even number.")],
};

pub(super) static RING: MapShape = MapShape {
    name: "ring",
    what: "a ring",
    keys: &[needed("switches", Count, "Switches `s1`.. with hosts `h1`...")],
};

/// The settings of every switch.
pub(super) static SWITCH: MapShape = MapShape {
    name: "lab_switch",
    what: "a switch of the lab",
    keys: &[
        key("program", Text, "Its program, relative to the scenario."),
        key("defines", MapOf(&Text), "Macros of a program in P4, name and value."),
        key("qos", QOS, "Queues, buffers, marking: as `qos` in switch.yaml."),
    ],
};

/// Numbers and words by name.
const PARAMETERS: Shape = MapOf(&Either(&[Real, Name]));

/// The keys of hosts, after those of a place.
macro_rules! host_keys {
    ($($first:expr),* $(,)?) => {
        &[
            $($first,)*
            key("nic", Choice(super::nic::NAMES), "A real adapter, whose settings these are where nothing else is said; `ideal` when absent."),
            key("qos", QOS, "Its queues, as in switch.yaml."),
            key("rate_control", Name, "`fixed`, a preset, or a program by name or path; `dcqcn` when absent."),
            key("parameters", PARAMETERS, "Parameters that differ from the preset."),
            key("cnp_interval", Text, "Least time between CNPs; that of the preset when absent."),
            key("cnp_per", Choice(CNP_PER), "What that time is kept for; `flow` when absent."),
            key("path_mtu", Text, "Payload of a full packet: 256 B to 4096 B; 1024 B when absent."),
            key("packet", Text, "Payload of a full packet, any multiple of 4 bytes, instead of `path_mtu`."),
            key("data_dscp", Count, "DSCP of data; 26 when absent."),
            key("cnp_dscp", Count, "DSCP of CNPs; 48 when absent."),
            key("data_pcp", Count, "VLAN priority of data without DSCP; 3 when absent."),
            key("ecn", Flag, "Data says that it can be marked; true when absent."),
            key("ack_every", Count, "Packets for each acknowledgement asked for; 64 when absent."),
            key("ack_timeout", Count, "Sent again after 4.096 us x 2^n; 14 (67 ms) when absent."),
            key("ack_timeout_min", Count, "Least n of the adapter's timer; 0 when absent."),
            key("ack_timeout_factor", Count, "Its timer ends after so many times 4.096 us x 2^n, 1 to 4; 1 when absent."),
            key("early_timeouts", OneOrMore(&Text), "Waits before the timeout, after each of which is sent again; none when absent."),
            key("program", Text, "The adapter's program, relative to the scenario."),
            key("retransmission", Choice(RETRANSMISSION), "What is sent again; `go_back_n` when absent."),
            key("reordering", Count, "`selective`: packets that may overtake one before it is lost; 0 when absent."),
            key("outstanding", Text, "Payload, or `N packets`, from the oldest that is missing to the newest: IRN's BDP-FC; no limit when absent."),
            key("spray", Count, "UDP source ports that packets of data take in turn, a power of two; 1 when absent."),
            key("trimmed_dscp", OneOrMore(&Count), "DSCPs of packets that switches trimmed; none when absent."),
        ]
    };
}

/// The settings of every host.
pub(super) static HOST: MapShape = MapShape {
    name: "lab_host",
    what: "a host of the lab",
    keys: host_keys![key(
        "transport",
        Choice(super::Transport::NAMES),
        "Its protocol; `rocev2` when absent.",
    )],
};

/// Hosts that are something else.
pub(super) static OWN_HOST: MapShape = MapShape {
    name: "lab_own_host",
    what: "hosts with settings of their own",
    keys: host_keys![needed("of", OneOrMore(&Name), "Hosts or groups.")],
};

pub(super) const RETRANSMISSION: &[&str] = &["go_back_n", "selective"];
pub(super) const CNP_PER: &[&str] = &["flow", "pair", "port"];
pub(super) const PATTERNS: &[&str] = &["each", "pairs", "all_to_all", "permutation", "incast"];
pub(super) const FLOW_FORMATS: &[&str] = &["csv", "hpcc", "htsim"];

/// The keys of a map, and those for how its flows are sent.
macro_rules! with_sending {
    ($($own:expr),+ $(,)?) => {
        &[
            $($own,)+
            key("rate_control", Name, "`fixed`, a preset or a program, instead of the host's."),
            key("parameters", PARAMETERS, "Parameters that differ from this preset."),
            key("dscp", Count, "DSCP of its data, instead of the host's."),
            key("ecn", Flag, "Whether its data can be marked, instead of the host's."),
            key("retransmission", Choice(RETRANSMISSION), "What is sent again, instead of the host's."),
            key("reordering", Count, "`selective`: packets that may overtake one before it is lost."),
            key("spray", Count, "UDP source ports in turn, instead of the host's."),
        ]
    };
}

/// Flows of one kind.
pub(super) static FLOW: MapShape = MapShape {
    name: "flow",
    what: "a flow",
    keys: with_sending![
        key("file", Text, "Flows from a file."),
        key(
            "format",
            Choice(FLOW_FORMATS),
            "Of the file; `csv` when absent: from,to,bytes,start_us.",
        ),
        key("origin", Text, "The time of the file at which the run begins; 0 when absent."),
        key("load", Text, "Flows arrive by chance and offer this part of each sender's link."),
        key(
            "sizes",
            Text,
            "How long they are: a distribution by name, or a file of bytes and percent.",
        ),
        key("until", Text, "None arrives from here on; the end of the run when absent."),
        key("fan_in", Count, "Senders of an incast."),
        key("every", Text, "Time between two incasts."),
        key(
            "pattern",
            Choice(PATTERNS),
            "Who with whom; `each` when absent: every `from` to every `to`.",
        ),
        key("from", OneOrMore(&Name), "Hosts or groups that send."),
        key("to", OneOrMore(&Name), "Hosts or groups that receive."),
        key("size", Text, "Bytes of a round; without it, sending never ends."),
        key("message", Text, "Bytes of a message; 1 MB, or the size, when absent."),
        key("start", Text, "When it starts; 0 when absent."),
        key("stagger", Text, "Each next flow starts this much later."),
        key("rounds", Count, "So many rounds, each after the last has completed."),
        key("window", Count, "Messages under way at a time; 2 when absent."),
    ],
};

/// A collective operation.
pub(super) static COLLECTIVE: MapShape = MapShape {
    name: "collective",
    what: "a collective",
    keys: with_sending![
        key("name", Name, "Its name in figures; the operation when absent."),
        needed("operation", Choice(Operation::NAMES), "What is done."),
        key("algorithm", Choice(Algorithm::NAMES), "Of an all-reduce; `ring` when absent."),
        key("ranks", OneOrMore(&Name), "Hosts or groups, in order; all when absent."),
        needed("size", Text, "Bytes of the result, or of the input of a rank."),
        key("iterations", Count, "So many times; 1 when absent."),
        key("compute", Text, "Time that a rank computes before each; 0 when absent."),
        key("jitter", Text, "It is up to this part longer, drawn."),
        key("stragglers", Map(&STRAGGLERS), "Ranks that compute longer."),
        key("chunks", Count, "Parts of a tree's message; 8 when absent."),
        key("expert", Text, "Time that an expert computes; 0 when absent."),
        key("skew", Real, "How uneven experts are chosen: Zipf's exponent; 0 when absent."),
        key("start", Text, "When the first iteration begins; 0 when absent."),
    ],
};

/// Ranks that compute longer.
pub(super) static STRAGGLERS: MapShape = MapShape {
    name: "stragglers",
    what: "stragglers",
    keys: &[
        needed("of", OneOrMore(&Name), "Hosts or groups."),
        needed("slower", Real, "So many times longer."),
    ],
};

/// A fault.
pub(super) static FAULT: MapShape = MapShape {
    name: "fault",
    what: "a fault",
    keys: &[
        needed("at", Text, "When."),
        key("until", Text, "When it is over; lasts to the end when absent."),
        key("link_down", Text, "This link carries nothing: `h1-s1`."),
        key(
            "reroute_after",
            Text,
            "Switches choose other ways so long after the cut; never when absent.",
        ),
        key("pause_storm", Name, "This host keeps its switch paused."),
        key("priority", Count, "Priority of the storm; 3 when absent."),
        key("slow_receiver", Name, "This host takes nothing from its wire."),
        key("ecn_off", Flag, "Switches mark nothing."),
        key("thresholds", Map(&TUNING), "Marking curves or XOFF levels are others."),
    ],
};

/// Thresholds that a fault changes.
pub(super) static TUNING: MapShape = MapShape {
    name: "tuning",
    what: "changed thresholds",
    keys: &[
        key("switch", Name, "Of this switch; of all when absent."),
        key("neighbour", Name, "Of its port to this neighbour; of all ports when absent."),
        key("queue", Count, "Of this queue or priority group; of all when absent."),
        key("kmin", Text, "No mark up to here."),
        key("kmax", Text, "Every packet is marked above."),
        key("pmax", Text, "Share that is marked at `kmax`."),
        key("xoff_at", Text, "A lossless group asks for a pause from here on."),
    ],
};
