//! CNPs in their wire format.

use std::net::Ipv4Addr;

use crate::link_type::LinkType;
use crate::roce::np::{FlowKey, Marked, Role};

use super::super::Frames;
use super::super::envelope::mapped;
use super::*;

fn cnp(mark: Mark, src: u128, dst: u128) -> Cnp {
    let flow = FlowKey { src, dst, dest_qp: 0x22 };
    let marked = Marked { pkey: 0x8007, sl: 9 };
    Cnp { flow, sender_qp: 0x118, port: 1, mark, marked, role: Role::Nic }
}

#[test]
fn a_cnp_goes_back_to_the_sender() {
    let frames = Frames::new().unwrap();
    let (src, dst) = (mapped(Ipv4Addr::new(10, 0, 0, 1)), mapped(Ipv4Addr::new(10, 0, 0, 2)));
    let link = CnpLink::Ethernet { src: Mac([2; 6]), dst: Mac([4; 6]), vlan: Some(7) };
    let config = CnpConfig::default();
    let mut out = [0xee; FRAME_BYTES_MAX];
    let cnp = cnp(Mark::IpCe, src, dst);
    let bytes = frames.transport.build_cnp(&cnp, &link, &config, &mut out).unwrap();
    assert_eq!(bytes, 78);
    let seen = frames.transport.parse(LinkType::Ethernet, &out[..bytes]).unwrap();
    let sent = frames.transport.address_of(LinkType::Ethernet, &out[..bytes]);
    let address = sent.unwrap();
    assert_eq!((address.src, address.dst, address.vlan), (dst, src, Some(7)));
    assert_eq!((address.src_mac, address.dst_mac), (Mac([2; 6]), Mac([4; 6])));
    let bth = seen.packet.headers.bth;
    assert_eq!(bth.pkey, 0x8007, "that of the marked packet");
    assert_eq!((bth.opcode, bth.dest_qp, bth.becn, bth.psn.get()), (0x81, 0x118, true, 0));
    assert!(seen.packet.payload.is_empty());
}

#[test]
fn marks_and_links_must_fit() {
    let frames = Frames::new().unwrap();
    let mut out = [0; FRAME_BYTES_MAX];
    let link = CnpLink::Infiniband { slid: 2, dlid: 1 };
    let config = CnpConfig::default();
    let mut build = |cnp: &Cnp| frames.transport.build_cnp(cnp, &link, &config, &mut out);
    assert_eq!(build(&cnp(Mark::IpCe, 1, 2)), Err(CnpError::Link));
    assert_eq!(build(&cnp(Mark::Fecn, 1, 2)), Ok(26));
    assert_eq!(build(&cnp(Mark::Fecn, 1 << 64, 2 << 64)), Ok(66));
}

#[test]
fn an_infiniband_cnp_has_the_service_level_of_the_mark_or_its_own() {
    let frames = Frames::new().unwrap();
    let link = CnpLink::Infiniband { slid: 2, dlid: 1 };
    let mut out = [0; FRAME_BYTES_MAX];
    let mut build = |config: &CnpConfig| {
        let cnp = cnp(Mark::Fecn, 1, 2);
        let bytes = frames.transport.build_cnp(&cnp, &link, config, &mut out).unwrap();
        let seen = frames.transport.parse(LinkType::Infiniband, &out[..bytes]).unwrap();
        assert_eq!(seen.packet.headers.bth.pkey, 0x8007);
        let (_, marked) = frames.transport.marked(LinkType::Infiniband, &out[..bytes]).unwrap();
        assert_eq!(marked.pkey, 0x8007);
        (marked.sl, out[0] >> 4)
    };
    assert_eq!(build(&CnpConfig::default()), (9, 1));
    let mut map = SlToVl::default();
    map.0[9] = 3;
    map.0[2] = 5;
    assert_eq!(build(&CnpConfig { sl_to_vl: map, ..CnpConfig::default() }), (9, 3));
    let own = CnpConfig { sl: Some(2), sl_to_vl: map, ..CnpConfig::default() };
    assert_eq!(build(&own), (2, 5));
}
