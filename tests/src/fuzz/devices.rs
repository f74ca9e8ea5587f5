//! A device for each engine, fed the same: what leaves, what is punted and the accounts are equal, and nothing is lost.

use wireyard_switch::ports::{LinkType, PortNumber};
use wireyard_switch::program::{DeviceOptions, EngineKind, Loaded};
use wireyard_switch::sandbox::Sandbox;
use wireyard_tables::time::{Span, Time};

/// Says which packet it was when the device panics.
struct Witness<'a>(&'a str, u16, &'a [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.2.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("{}: packet into port {}: {hex}", self.0, self.1);
        }
    }
}

/// One device for each engine.
pub struct Pair {
    name: String,
    ports: Vec<u16>,
    devices: Vec<(EngineKind, Sandbox, u32)>,
    now: Time,
    sent: u64,
}

impl Pair {
    /// Devices of a program with these ports.
    ///
    /// # Errors
    /// A state that cannot be as declared, or no machine code.
    pub fn new(name: &str, loaded: &Loaded, ports: &[(u16, LinkType)]) -> Result<Pair, String> {
        let device = |engine| {
            let options = DeviceOptions { engine, ..DeviceOptions::small() };
            let core = loaded.device(options).map_err(|error| error.to_string())?;
            let ports: Vec<_> =
                ports.iter().map(|(number, link)| (PortNumber(*number), *link)).collect();
            let mut sandbox = Sandbox::new(core, &ports).map_err(|error| error.to_string())?;
            sandbox.core.outcomes_mut().listen_to_punts();
            let free = sandbox.core.memory().free_chunks();
            Ok::<_, String>((engine, sandbox, free))
        };
        let devices =
            EngineKind::ALL.into_iter().map(device).collect::<Result<Vec<_>, String>>()?;
        let ports = ports.iter().map(|(number, _)| *number).collect();
        Ok(Pair { name: name.to_owned(), ports, devices, now: Time::ZERO, sent: 0 })
    }

    /// Its ports.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// A packet into a port of each device.
    ///
    /// # Panics
    /// The engines differ.
    pub fn send(&mut self, port: u16, packet: &[u8]) {
        let _witness = Witness(&self.name, port, packet);
        self.now += Span::from_us(1);
        // What the traffic manager decides is not this test's matter; half of the packets are marked.
        let mark = self.sent % 2 == 1;
        self.sent += 1;
        let mut outcomes = Vec::new();
        for (_, device, _) in &mut self.devices {
            device.core.stand_in.mark(mark);
            device.core.stand_in.trim(self.sent.is_multiple_of(5).then_some(64));
            assert!(
                device.send(PortNumber(port), packet, self.now, None),
                "port {port} takes a packet"
            );
            let punted: Vec<_> = device
                .core
                .outcomes_mut()
                .take_punted()
                .into_iter()
                .map(|p| (p.reason, p.bytes))
                .collect();
            outcomes.push((device.received(), punted));
        }
        assert_eq!(outcomes[0], outcomes[1], "the engines differ");
    }

    /// How many packets that were; all have left or were dropped.
    ///
    /// # Panics
    /// The account of a device is not whole, or not that of the other; something is kept.
    pub fn finish(mut self) -> u64 {
        self.settle();
        for (engine, device, free) in &mut self.devices {
            let place = format!("{} on {}", self.name, engine.name());
            assert_eq!(device.core.report().queued, 0, "{place}");
            assert_eq!(device.core.memory().free_chunks(), *free, "{place}: chunks are lost");
        }
        self.sent
    }

    /// Time passes, and what a program delays leaves, if it is not held for longer.
    ///
    /// # Panics
    /// The account of a device is not whole, or not that of the other.
    pub fn settle(&mut self) {
        self.now += Span::from_us(10_000_000);
        let mut reports = Vec::new();
        for (engine, device, _) in &mut self.devices {
            device.run_until_idle(self.now, None);
            device.received();
            let report = device.core.report();
            assert!(report.balanced, "{} on {}: {report:?}", self.name, engine.name());
            reports.push(format!("{report:?}"));
        }
        assert_eq!(reports[0], reports[1], "{}", self.name);
    }
}
