//! Target `capture`: any bytes as a capture file; what is read can be written and is the same then.

use wireyard_switch::pcap::{
    Interface, PcapHeader, PcapReader, PcapWriter, RecordToWrite, Timestamp, erf,
};

/// A record: link type, time, length on the wire, bytes.
type Read = (u16, Timestamp, u32, Vec<u8>);

/// The records, until the end or an error.
fn records(data: &[u8]) -> Option<Vec<Read>> {
    let mut reader = PcapReader::new(data).ok()?;
    let mut found = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        // ERF records have headers of their own.
        let _ = erf::frame(record.data);
        found.push((record.link, record.time, record.wire_len, record.data.to_vec()));
    }
    Some(found)
}

fn written(link: u16, records: &[Read]) -> Vec<u8> {
    let mut header = PcapHeader::new(link);
    header.nanoseconds = true;
    let mut writer = PcapWriter::pcap(Vec::new(), header).expect("memory");
    for (_, time, wire_len, data) in records {
        let record =
            RecordToWrite { time: *time, data, wire_len: *wire_len, interface: 0, comment: None };
        writer.write(&record).expect("memory");
    }
    writer.into_inner().expect("memory")
}

/// Does an input.
///
/// # Panics
/// What was read is not what is read again after it was written.
pub fn run(data: &[u8]) {
    let Some(found) = records(data) else { return };
    let Some((link, ..)) = found.first() else { return };
    // The writer is for times that its format has, and for one link type.
    let fits = |(of, time, wire_len, bytes): &Read| {
        of == link
            && u32::try_from(time.seconds).is_ok()
            && time.nanos < 1_000_000_000
            && *wire_len as usize >= bytes.len()
    };
    if found.iter().all(fits) {
        assert_eq!(records(&written(*link, &found)).as_ref(), Some(&found));
    }
}

/// Small captures of each format.
pub fn seeds() -> Vec<Vec<u8>> {
    let time = Timestamp { seconds: 1_700_000_000, nanos: 5000 };
    let data: Vec<u8> = (0..60).collect();
    let record = |interface| RecordToWrite {
        time,
        data: &data,
        wire_len: 1500,
        interface,
        comment: Some("why"),
    };
    let mut seeds = Vec::new();
    for (big_endian, nanoseconds) in [(false, false), (true, true)] {
        let header = PcapHeader { big_endian, nanoseconds, ..PcapHeader::new(1) };
        let mut writer = PcapWriter::pcap(Vec::new(), header).expect("memory");
        (0..3).for_each(|_| writer.write(&record(0)).expect("memory"));
        seeds.push(writer.into_inner().expect("memory"));
    }
    let mut writer = PcapWriter::pcapng(Vec::new()).expect("memory");
    for (link, name) in [(1, "veth0"), (197, "erf0")] {
        let interface = Interface { link, name: name.to_owned() };
        writer.add_interface(&interface).expect("memory");
    }
    (0..4).for_each(|n| writer.write(&record(n % 2)).expect("memory"));
    seeds.push(writer.into_inner().expect("memory"));
    seeds
}
