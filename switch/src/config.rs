//! `switch.yaml`: the program of a switch, its entries, its ports and its queues.

pub mod generators;
pub mod linux;
mod node;
pub mod notification;
mod places;
pub mod qos;
pub mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use wireyard_pipeline::diag::{Diagnostics, Files, codes};
use wireyard_pipeline::schema;
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::{Key, Map, Node, NodeKind};
use wireyard_pipeline::source::shape::{MapShape, Shape, key};
use wireyard_pipeline::source::{Loader, read_yaml};
use wireyard_tables::time::Span;

pub(crate) use crate::ports::spec::{PORT_MAX, PortNumber, is_port};
use crate::ports::{LinkType, PortSpec};
use generators::GeneratorSection;
use linux::LinuxSection;
use notification::Notification;
use places::Places;
use qos::{PortLink, PortSection, Qos, QosConfig, Report};

/// A generator for a port that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("generator {generator}: there is no port {port}; ports are {:?}{}", ports.iter().map(|port| port.0).collect::<Vec<_>>(), at.as_ref().map_or(String::new(), |at| format!(" ({at})")))]
pub struct GeneratorError {
    /// Its index in the configuration, from 1.
    pub generator: usize,
    /// The port that it names.
    pub port: PortNumber,
    /// The existing ports.
    pub ports: Vec<PortNumber>,
    /// File, line and column of the port, where it is written in a file.
    pub at: Option<String>,
}

/// The shape of `qos`, for the schema: the model behind it has its own reader ([`qos`]).
pub(crate) const QOS: Shape = Shape::MapOf(&QOS_TABLE);
const QOS_TABLE: Shape = Shape::Either(&[QOS_VALUE, Shape::MapOf(&QOS_ENTRY)]);
const QOS_ENTRY: Shape = Shape::Either(&[QOS_VALUE, Shape::MapOf(&QOS_PART)]);
const QOS_PART: Shape = Shape::Either(&[QOS_VALUE, Shape::MapOf(&QOS_VALUE)]);
const QOS_VALUE: Shape = Shape::OneOrMore(&Shape::Text);

/// The JSON Schema of `switch.yaml`: a port also has the keys of `qos.ports`.
pub fn schema() -> serde_json::Value {
    static OF_QOS: MapShape = MapShape {
        name: "port_qos",
        what: "what a port has of queues",
        keys: &[key("any", QOS_PART, "As in `qos.ports`.")],
    };
    let value = schema::root(&OF_QOS, "")["properties"]["any"].take();
    let mut schema = schema::root(&SWITCH, "Wireyard switch configuration");
    if let Some(port) = schema["$defs"]["port"]["properties"].as_object_mut() {
        for field in node::fields_of::<PortSection>() {
            port.entry(*field).or_insert_with(|| value.clone());
        }
    }
    schema
}

/// The keys of `switch.yaml`.
pub static SWITCH: MapShape = MapShape {
    name: "switch",
    what: "a switch configuration",
    keys: &[
        key("program", Shape::Text, "The program, relative to this file."),
        key("defines", Shape::MapOf(&Shape::Text), "Macros of a program in P4, name and value."),
        key("entries", Shape::Text, "The entries file, relative to this file."),
        key("ports", Shape::MapOf(&Shape::Map(&PORT)), "Ports by number."),
        key("qos", QOS, "Queues, buffers, marking and flow control."),
        key("congestion_notification", QOS_TABLE, "How CNPs are paced and what they look like."),
        key(
            "generators",
            Shape::List(&Shape::MapOf(&Shape::Text)),
            "Frames that the device feeds into its own ingress.",
        ),
        key("linux", Shape::Map(&linux::LINUX), "The kernel as the control plane of a router."),
    ],
};

static PORT: MapShape = MapShape {
    name: "port",
    what: "a port",
    keys: &[
        key(
            "interface",
            Shape::Text,
            "What it is when the command line names no ports: `veth0`, `tap:tap0`.",
        ),
        key("link", Shape::Choice(LINKS), "What its frames are; `ethernet` when absent."),
        key("mac", Shape::Text, "Source address of its own frames: pauses."),
    ],
};

/// Most ports: checks of each pair of them stay short.
const PORTS_MAX: usize = 1024;

const LINKS: &[&str] = &["ethernet", "infiniband", "opa", "erf"];

/// A port of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfiguredPort {
    /// Its specification without the number, if it has one.
    pub interface: Option<String>,
    /// The link type of its frames.
    pub link: Option<LinkType>,
    /// Source address of its own frames.
    pub mac: Option<[u8; 6]>,
    /// Rate, cable and other keys of [`PortSection`], written with the port.
    pub qos: Option<PortSection>,
}

/// A switch configuration.
#[derive(Clone, Debug, Default)]
pub struct SwitchConfig {
    /// The program, if it is named.
    pub program: Option<PathBuf>,
    /// Macros of a program in P4, name and value.
    pub defines: Vec<(String, String)>,
    /// The entries file, if it is named.
    pub entries: Option<PathBuf>,
    /// Ports by number.
    pub ports: BTreeMap<PortNumber, ConfiguredPort>,
    /// The `qos:` section.
    pub qos: Option<QosConfig>,
    /// The `congestion_notification:` section.
    pub notification: Notification,
    /// The `generators:` section.
    pub generators: Vec<GeneratorSection>,
    /// The `linux:` section.
    pub linux: Option<LinuxSection>,
    /// Of live ports: the response time of a process at the other end of a link. `None` in virtual time.
    pub live: Option<Span>,
    /// Places of its parts in the file.
    places: Places,
}

impl SwitchConfig {
    /// The queues of a switch with these ports and those of the configuration; `None` without any configuration of
    /// queues. A port's name is its number.
    ///
    /// # Errors
    /// Contradictions, with their numbers.
    pub fn queues(&self, numbers: &[PortNumber]) -> Option<Result<Qos, Box<Report>>> {
        let of_ports = self.ports.iter().filter_map(|(n, port)| Some((n, port.qos.as_ref()?)));
        let of_ports: Vec<(&PortNumber, &PortSection)> = of_ports.collect();
        if self.qos.is_none() && of_ports.is_empty() {
            return None;
        }
        let mut config = self.qos.clone().unwrap_or_default();
        config.live = self.live;
        for (number, section) in of_ports {
            let entry = config.ports.entry(number.to_string()).or_default();
            *entry = section.over(entry);
        }
        let all: BTreeSet<PortNumber> = numbers.iter().chain(self.ports.keys()).copied().collect();
        let link = |number: PortNumber| PortLink { number, rate: None };
        let mut queues = config.resolve(&all.into_iter().map(link).collect::<Vec<_>>());
        match &mut queues {
            Ok(qos) => self.places.fill(&mut qos.report),
            Err(report) => self.places.fill(report),
        }
        Some(queues)
    }

    /// Checks that generators feed existing ports.
    ///
    /// # Errors
    ///
    /// The first one that does not.
    pub fn check_generators(&self, numbers: &[PortNumber]) -> Result<(), GeneratorError> {
        let mut generators = (1..).zip(&self.generators);
        match generators.find(|(_, section)| !numbers.contains(&section.port)) {
            Some((n, GeneratorSection { port, .. })) => {
                let (ports, at) = (numbers.to_vec(), self.places.generator(n));
                Err(GeneratorError { generator: n, port: *port, ports, at })
            }
            None => Ok(()),
        }
    }

    /// The configured link type of a port.
    pub fn link_of(&self, number: PortNumber) -> Option<LinkType> {
        self.ports.get(&number)?.link
    }

    /// The ports of `run` if the command line has none; `None` if it must name them.
    pub fn own_ports(&self) -> Option<Vec<PortNumber>> {
        let own = self.ports.iter().filter(|(_, port)| port.interface.is_some());
        let own: Vec<PortNumber> = own.map(|(number, _)| *number).collect();
        (!own.is_empty()).then_some(own)
    }

    /// Reads a configuration; its text is added to `files`. `None`: the errors are in `found`.
    pub fn read(
        path: &Path,
        loader: &Loader,
        files: &mut Files,
        found: &mut Diagnostics,
    ) -> Option<SwitchConfig> {
        let before = found.counts().0;
        let node = read_yaml(path, loader, files, found)?;
        let mut config =
            SwitchConfig { places: Places::of(&node, files), ..SwitchConfig::default() };
        let mut decoder = Decoder::new(files, found);
        if node.kind != NodeKind::Null {
            let fields = decoder.map(&node, &SWITCH)?;
            let mut of_ports = Vec::new();
            let folder = path.parent().unwrap_or(Path::new(""));
            let mut file = |name| {
                let word = fields.get(name).and_then(|node| decoder.word(node))?;
                Some(folder.join(word.value))
            };
            config.program = file("program");
            config.entries = file("entries");
            if let Some(node) = fields.get("defines") {
                config.defines = read_defines(&mut decoder, node);
            }
            if let Some(ports) = fields.get("ports") {
                config.ports = read_ports(&mut decoder, ports, &mut of_ports)?;
            }
            let notification = fields.get("congestion_notification");
            config.notification =
                notification.and_then(|n| node::read(n, decoder.diagnostics)).unwrap_or_default();
            let generators = fields.get("generators");
            config.generators =
                generators.and_then(|n| node::read(n, decoder.diagnostics)).unwrap_or_default();
            if let Some(generators) = generators {
                config.warn_of_generators(generators, decoder.diagnostics);
            }
            config.linux = fields.get("linux").and_then(|node| linux::read(&mut decoder, node));
            config.qos = fields.get("qos").and_then(|n| read_qos(n, decoder.diagnostics));
            let section = fields.get("qos");
            // Without the section that could not be read its definitions are unknown.
            if config.qos.is_some() || section.is_none() {
                let own = config.qos.clone().unwrap_or_default();
                let of_ports: Vec<&Node> = of_ports.iter().collect();
                qos::names::check(&own, section, &of_ports, decoder.diagnostics);
            }
        }
        (found.counts().0 == before).then_some(config)
    }

    /// Warns of generators of ports that `ports:` does not list. Where it names interfaces, they are errors of
    /// [`SwitchConfig::check_generators`]; else the command line may add the port.
    fn warn_of_generators(&self, node: &Node, found: &mut Diagnostics) {
        let NodeKind::List(items) = &node.kind else { return };
        if self.ports.is_empty() || self.own_ports().is_some() {
            return;
        }
        for (section, item) in self.generators.iter().zip(items) {
            if !self.ports.contains_key(&section.port) {
                let message = format!("`ports` has no port {}", section.port);
                let warning = found.warning(codes::UNUSED, item.span, message);
                warning.help("without a port of this number the switch does not start");
            }
        }
    }
}

/// True for a valid name of a macro of a P4 program.
pub(crate) fn is_macro_name(name: &str) -> bool {
    let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
    !name.is_empty() && name.chars().all(is_part) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// `defines:`, the macros of a program in P4.
pub(crate) fn read_defines(decoder: &mut Decoder<'_>, node: &Node) -> Vec<(String, String)> {
    let list = decoder.named(node, "the macros", |decoder, _, node| {
        Some(decoder.scalar(node, "the value of a macro")?.text.to_owned())
    });
    list.into_iter().map(|(name, value)| (name.value, value)).collect()
}

/// Reads a `qos:` section; errors go to the diagnostics.
pub(crate) fn read_qos(node: &Node, found: &mut Diagnostics) -> Option<QosConfig> {
    if let Some(word) = node.text() {
        let message = format!("expected a map, found `{}`", word.text);
        let error = found.error(codes::WRONG_TYPE, node.span, message);
        error.help(format!("a preset stands behind its key: `qos: {{ preset: {} }}`", word.text));
        return None;
    }
    node::read(node, found)
}

/// `of_queues` gets the keys of each port about its queues.
fn read_ports(
    decoder: &mut Decoder<'_>,
    node: &Node,
    of_queues: &mut Vec<Node>,
) -> Option<BTreeMap<PortNumber, ConfiguredPort>> {
    let mut ports = BTreeMap::new();
    let mut taken: Vec<(PortNumber, PortSpec)> = Vec::new();
    let pairs = decoder.pairs(node, "ports by number")?;
    if let Some((surplus, _)) = pairs.get(PORTS_MAX) {
        let message = format!("a switch has at most {PORTS_MAX} ports, not {}", pairs.len());
        return decoder.refuse(codes::LIMIT, surplus.span, message);
    }
    for (key, value) in pairs {
        // One way to write each: `01` and `1` would be one port under two keys.
        let is_plain = |number: &PortNumber| number.to_string() == key.scalar.text;
        let number = key.scalar.text.parse().ok().map(PortNumber);
        let number = number.filter(|number| is_port(*number) && is_plain(number));
        let Some(number) = number else {
            let text = key.scalar.text.as_str();
            let message = format!("`{text}` is not a port number: use 0 to {PORT_MAX}");
            decoder.diagnostics.error(codes::WRONG_TYPE, key.span, message);
            continue;
        };
        let Some((own, qos)) = split_port(decoder, value) else { continue };
        let Some(fields) = decoder.map(&own, &PORT) else { continue };
        let interface = fields.get("interface");
        let interface =
            interface.and_then(|node| read_interface(decoder, node, number, &mut taken));
        let link = fields.get("link").and_then(|node| decoder.choice(node, LINKS));
        let link = link.and_then(|link| LinkType::ALL.into_iter().find(|l| l.name() == link.value));
        let mac = fields.get("mac").and_then(|node| read_mac(decoder, node));
        let has_qos = matches!(&qos.kind, NodeKind::Map(map) if !map.pairs.is_empty());
        let section = has_qos.then(|| node::read(&qos, decoder.diagnostics)).flatten();
        of_queues.push(qos);
        ports.insert(number, ConfiguredPort { interface, link, mac, qos: section });
    }
    Some(ports)
}

/// An interface with a name that a live switch can open; `taken` has those of the ports before.
fn read_interface(
    decoder: &mut Decoder<'_>,
    node: &Node,
    number: PortNumber,
    taken: &mut Vec<(PortNumber, PortSpec)>,
) -> Option<String> {
    let name = decoder.word(node)?.value;
    if let Some((before, interface)) = name.split_once('=')
        && !before.is_empty()
        && before.bytes().all(|byte| byte.is_ascii_digit())
    {
        let message = format!("the number of the port is the key here: write `{interface}`");
        return decoder.refuse(codes::WRONG_TYPE, node.span, message);
    }
    let text = format!("{number}={name}");
    let spec = PortSpec::parse(&text).map_err(|error| error.to_string());
    let free = spec.and_then(|spec| match taken.iter().find(|(_, t)| spec.shares_interface(t)) {
        Some((other, _)) => Err(format!("port `{text}`: its interface is port {other} already")),
        None => Ok(spec),
    });
    match free {
        Ok(spec) => {
            taken.push((number, spec));
            Some(name)
        }
        Err(why) => decoder.refuse(codes::WRONG_TYPE, node.span, why),
    }
}

/// The keys of a port that are about the port, and those that are about its queues.
fn split_port(decoder: &mut Decoder<'_>, node: &Node) -> Option<(Node, Node)> {
    let pairs = match &node.kind {
        NodeKind::Null => [].as_slice(),
        _ => decoder.pairs(node, "a port")?,
    };
    let is_own = |key: &Key| PORT.keys.iter().any(|own| own.name == key.scalar.text);
    let of_queues = node::fields_of::<PortSection>();
    let is_known = |key: &Key| is_own(key) || of_queues.contains(&key.scalar.text.as_str());
    let all = || PORT.keys.iter().map(|own| own.name).chain(of_queues.iter().copied());
    for (key, _) in pairs.iter().filter(|(key, _)| !is_known(key)) {
        let message = format!("a port has no key `{}`", key.scalar.text);
        let error = decoder.diagnostics.error(codes::UNKNOWN_KEY, key.span, message);
        error.did_you_mean(&key.scalar.text, all());
        if error.fixes.is_empty() {
            let keys: Vec<String> = all().map(|key| format!("`{key}`")).collect();
            error.note(format!("its keys are {}", keys.join(", ")));
        }
    }
    let known = pairs.iter().filter(|(key, _)| is_known(key)).cloned();
    let (own, qos) = known.partition(|(key, _)| is_own(key));
    let map = |pairs| {
        let kind = NodeKind::Map(Map { pairs, braces: true });
        Node { kind, span: node.span, alias: node.alias }
    };
    Some((map(own), map(qos)))
}

fn read_mac(decoder: &mut Decoder<'_>, node: &Node) -> Option<[u8; 6]> {
    let word = decoder.word(node)?;
    let byte = |text: &str| {
        let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(text, 16).ok().filter(|_| is_hex)
    };
    let bytes: Option<Vec<u8>> = word.value.split([':', '-']).map(byte).collect();
    let mac = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    let mac = mac.filter(|mac| mac[0] & 1 == 0);
    if mac.is_none() {
        let message = format!("`{}` is not the address of an interface", word.value);
        let error = decoder.diagnostics.error(codes::WRONG_TYPE, node.span, message);
        error.note("write six bytes, the first one even: `02:00:00:00:00:01`");
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The `switch.yaml` examples of the language reference are read, and keep their lossless promises.
    #[test]
    fn the_examples_of_the_reference_are_read_and_resolve() {
        let reference = include_str!("../../programs/README.md");
        let examples: Vec<&str> = reference
            .split("```yaml switch\n")
            .skip(1)
            .filter_map(|block| block.split("```").next())
            .collect();
        assert!(!examples.is_empty(), "the reference has an example");
        for text in examples {
            let loader = Loader::in_memory([("switch.yaml", text)], &[]);
            let (mut files, mut found) = (Files::new(), Diagnostics::new());
            let read =
                SwitchConfig::read(Path::new("switch.yaml"), &loader, &mut files, &mut found);
            let config = read.unwrap_or_else(|| panic!("{:?}\n{text}", found.sorted()));
            let numbers: Vec<PortNumber> = config.ports.keys().copied().collect();
            let queues = config.queues(&numbers).expect("the example has queues");
            assert!(queues.is_ok(), "{text}");
        }
    }

    fn read(text: &str) -> (Option<SwitchConfig>, Diagnostics, Files) {
        let loader = Loader::in_memory([("switch.yaml", text)], &[]);
        let (mut files, mut found) = (Files::new(), Diagnostics::new());
        let read = SwitchConfig::read(Path::new("switch.yaml"), &loader, &mut files, &mut found);
        (read, found, files)
    }

    #[test]
    fn a_profile_that_no_port_uses_is_a_warning_with_the_name_that_was_meant() {
        let text = "qos:\n  preset: onyx_roce\n  wred_profiles: { ROCEE: {}, ROCE: {}, own: {} }\n\
                    ports: { 1: { queue_wred: { 3: own } } }\n";
        let (config, found, files) = read(text);
        let shown = wireyard_pipeline::diag::render::plain(&found, &files);
        assert!(config.is_some() && found.counts() == (0, 1), "{shown}");
        assert!(shown.contains("no port uses WRED profile `ROCEE`"), "{shown}");
        assert!(shown.contains("did you mean `ROCE`"), "{shown}");
    }

    #[test]
    fn a_wrong_name_in_qos_is_one_error_at_its_place() {
        let wrong = [
            ("queue_wred: { 0-7: roce_ecm }", "roce_ecm", "`roce_ecn`", "WRED profile"),
            ("priority_groups: { 3: losless }", "losless", "`lossless`", "buffer profile"),
            ("queue_buffers: { 3: egres }", "egres", "`egress`", "buffer profile"),
            ("queue_schedulers: { 3: strikt }", "strikt", "`strict`", "scheduler"),
            ("dscp_to_tc_map: mapp", "mapp", "`map`", "DSCP to traffic class map"),
            ("tc_to_pg_map: groupz", "groupz", "`groups`", "traffic class to priority group map"),
        ];
        for (section, name, meant, what) in wrong {
            let qos = "qos:\n  buffer_pools: { in: { direction: ingress, size: 1 MB } }\n  \
                 buffer_profiles:\n    lossless: { pool: in, pool_alpha: 1 }\n    \
                 egress: { pool: in, pool_alpha: 1 }\n  \
                 wred_profiles: { roce_ecn: {} }\n  schedulers: { strict: { type: strict } }\n  \
                 dscp_to_tc_maps: { map: { 1: 1 } }\n  \
                 tc_to_priority_group_maps: { groups: { 1: 1 } }\n";
            for text in [
                format!("{qos}  port_defaults: {{ {section} }}\nports: {{ 1: , 2: , 3: }}\n"),
                format!("{qos}ports:\n  1: {{ {section} }}\n  2:\n"),
                format!("{qos}  ports: {{ 1: {{ {section} }} }}\nports: {{ 1: , 2: }}\n"),
            ] {
                let (config, found, files) = read(&text);
                let shown = wireyard_pipeline::diag::render::plain(&found, &files);
                assert!(config.is_none() && found.counts() == (1, 0), "{text}\n{shown}");
                assert!(shown.contains(&format!("there is no {what} `{name}`")), "{shown}");
                assert!(shown.contains(&format!("did you mean {meant}")), "{shown}");
                let span = found.iter().next().and_then(|one| one.primary.as_ref()).unwrap().span;
                assert_eq!(&text[span.start as usize..span.end as usize], name);
            }
        }
        let (_, found, _) =
            read("qos: { buffer_profiles: { a: { pool: imgress, pool_alpha: 1 } } }\n");
        assert_eq!(found.counts(), (1, 0), "a pool");
        let (_, found, files) = read("qos: { preset: onyx_rose }\n");
        let shown = wireyard_pipeline::diag::render::plain(&found, &files);
        assert!(shown.contains("switch.yaml:1:16") && shown.contains("`onyx_roce`"), "{shown}");
        let (_, found, _) = read("qos: { ports: { swp1: { rate: 1Gbps } } }\nports: { 1: }\n");
        assert_eq!(found.counts(), (1, 0), "a port");
    }

    #[test]
    fn numbers_of_ports_and_addresses_are_whole() {
        for key in ["01", "+1", "1_0"] {
            let (config, found, _) = read(&format!("ports: {{ 1: , {key}: }}\n"));
            assert!(config.is_none() && found.counts() == (1, 0), "{key}: {:?}", found.sorted());
        }
        let mac = |text: &str| read(&format!("ports: {{ 1: {{ mac: '{text}' }} }}\n")).0;
        let config = mac("02:00:00:00:00:0a").expect("six bytes");
        assert_eq!(config.ports[&PortNumber(1)].mac, Some([2, 0, 0, 0, 0, 10]));
        for text in
            ["02:00:00:00:00:01:zz", "02:00:00:00:00:+1", "02:00:00:00:00", "02:00:00:00:00:"]
        {
            assert!(mac(text).is_none(), "{text}");
        }
    }

    /// An error in a value that ports share is reported once, at its place; one in a port's own value for that port.
    #[test]
    fn a_wrong_value_has_its_place_and_is_one_error() {
        let ports = "ports:\n  1: { rate: 10Gbps }\n  2: { rate: 10Gbps }\n  3: { rate: 10Gbps }\n";
        let wrong = [
            ("  schedulers: { scheduler.0: { type: dwrr, weight: 0 } }\n", 44, "a weight is 1"),
            ("  schedulers: { scheduler.0: { type: strict, weight: 4 } }\n", 46, "means nothing"),
            ("  port_defaults: { pfc_enable: [8] }\n", 20, "priorities go from 0 to 7"),
            ("  port_defaults: { default_tc: 8 }\n", 20, "classes go from 0 to 7"),
            ("  port_defaults: { pfcwd: { poll_interval: 300 ms } }\n", 29, "not between 1 us"),
            ("  port_defaults: { pfcwd: { detection_time: 0 ms } }\n", 29, "give at least 1 us"),
            (
                "  buffer_profiles: { ingress_lossy: { pool: ingress_lossy_pool, dynamic_th: 11 } }\n",
                65,
                "-10 to 10",
            ),
        ];
        for (section, column, says) in wrong {
            let (config, found, _) =
                read(&format!("{ports}qos:\n  preset: sonic_azure\n{section}"));
            let config = config.unwrap_or_else(|| panic!("{:?}", found.sorted()));
            let report = config.queues(&[]).expect("queues").expect_err("a wrong value");
            let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
            let found: Vec<_> = found.iter().filter(|one| one.contains(says)).collect();
            let place = format!("(switch.yaml:7:{column})");
            assert!(found.len() == 1 && found[0].ends_with(&place), "{place} {found:#?}");
        }
        let own = ports.replacen("10Gbps }", "10Gbps, default_tc: 8 }", 2);
        let (config, found, _) = read(&format!("{own}qos: {{ preset: sonic_azure }}\n"));
        let config = config.unwrap_or_else(|| panic!("{:?}", found.sorted()));
        let report = config.queues(&[]).expect("queues").expect_err("a wrong value");
        let places: Vec<_> = report.problems.iter().filter_map(|one| one.at.as_deref()).collect();
        assert_eq!(places, ["switch.yaml:2:22", "switch.yaml:3:22"], "{report}");
    }

    /// A value of all ports may mean nothing for one of them, unless that port says that it has no use for it.
    #[test]
    fn a_warning_about_one_port_names_it() {
        let warnings = |third: &str| {
            let text = format!(
                "ports:\n  1: {{ pfc_enable: [] }}\n  2: {{ pfc_enable: [] }}\n  3: {{ {third} }}\n\
                 qos:\n  port_defaults: {{ rate: 10Gbps, pfcwd: {{ action: drop }} }}\n"
            );
            let config = read(&text).0.expect("a configuration");
            let qos = config.queues(&[]).expect("queues").unwrap_or_else(|why| panic!("{why}"));
            let all = qos.report.warnings.iter().map(ToString::to_string);
            all.filter(|one| one.contains("pfcwd")).collect::<Vec<_>>()
        };
        let found = warnings("").join("\n");
        assert!(found.starts_with("port 3, pfcwd: no priority has PFC"), "{found}");
        assert!(found.ends_with("(switch.yaml:6:34)") && found.lines().count() == 1, "{found}");
        assert_eq!(warnings("pfc_enable: []"), [] as [&str; 0]);
    }

    #[test]
    fn contradictions_have_a_place() {
        let text = "ports: { 1: { rate: 10Gbps } }\nqos:\n  preset: onyx_roce\n  packet_slots: 0\n";
        let (config, found, _) = read(text);
        let config = config.unwrap_or_else(|| panic!("{:?}", found.sorted()));
        let report = config.queues(&[]).expect("queues").expect_err("no packet fits");
        let shown = report.to_string();
        assert!(shown.contains("packet_slots") && shown.contains("(switch.yaml:4:3)"), "{shown}");
        let text = "ports:\n  1: { rate: 10Gbps }\nqos:\n  preset: onyx_roce\n  buffer_pools:\n    \
                    tiny: { direction: ingress, size: 0 B }\n";
        let (config, found, _) = read(text);
        let config = config.unwrap_or_else(|| panic!("{:?}", found.sorted()));
        let shown = config.queues(&[]).expect("queues").expect_err("no bytes").to_string();
        assert!(shown.contains("pool tiny") && shown.contains("(switch.yaml:6:5)"), "{shown}");
    }
    #[test]
    fn a_contradiction_of_many_ports_is_one_problem() {
        let text = "ports: { 1: { rate: 10Gbps }, 2: { rate: 10Gbps } }
qos:
  preset: onyx_roce
  buffer_profiles:
    ingress_lossless: { pool: ingress_lossless_pool, dynamic_th: 0, headroom: 1 KB, xon_below_xoff: 1 KB }
  port_defaults:
    priority_groups: { 3: ingress_lossless, default: ingress_lossy }
";
        let (config, found, _) = read(text);
        let config = config.unwrap_or_else(|| panic!("{:?}", found.sorted()));
        let report = config.queues(&[]).expect("queues").expect_err("too little headroom");
        let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 1, "{found:#?}");
        let begin = "ports 1, 2, priority group 3: headroom 1 KB is below";
        assert!(
            found[0].starts_with(begin) && found[0].ends_with("(switch.yaml:7:5)"),
            "{found:?}"
        );
    }
}
