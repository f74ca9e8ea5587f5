// Several ways to one destination, by a hash and by a selector: ways.json is the same program.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dstAddr; bit<48> srcAddr; bit<16> etherType; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> diffserv; bit<16> totalLen; bit<16> identification; bit<3> flags; bit<13> fragOffset;
    bit<8> ttl; bit<8> protocol; bit<16> hdrChecksum; bit<32> srcAddr; bit<32> dstAddr;
}
struct metadata { bit<16> way; }
struct headers { ethernet_t ethernet; ipv4_t ipv4; }

parser ParserImpl(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) { 0x0800: parse_ipv4; default: accept; }
    }
    state parse_ipv4 { packet.extract(hdr.ipv4); transition accept; }
}
control nothing(inout headers hdr, inout metadata meta) { apply { } }
control ingress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) way_counter;
    action_selector(HashAlgorithm.crc16, 64, 16) hops;
    action_profile(32) marks;
    action set_way(bit<16> base, bit<32> ways) {
        hash(meta.way, HashAlgorithm.crc16, base, { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, hdr.ipv4.protocol }, ways);
    }
    action to_port(bit<9> port) { standard_metadata.egress_spec = port; }
    action set_diffserv(bit<8> value) { hdr.ipv4.diffserv = value; }
    table group {
        key = { hdr.ipv4.dstAddr: lpm; }
        actions = { set_way; NoAction; }
        default_action = NoAction();
    }
    table way {
        key = { meta.way: exact; }
        actions = { to_port; NoAction; }
        default_action = NoAction();
        counters = way_counter;
    }
    table balanced {
        key = { hdr.ethernet.dstAddr: exact; hdr.ipv4.srcAddr: selector; hdr.ipv4.protocol: selector; }
        actions = { to_port; NoAction; }
        implementation = hops;
    }
    table mark {
        key = { hdr.ipv4.diffserv: exact; }
        actions = { set_diffserv; NoAction; }
        implementation = marks;
    }
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            if (group.apply().hit) { way.apply(); } else { balanced.apply(); }
            seen.count((bit<32>)meta.way);
            mark.apply();
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}
control egress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) { apply { } }
control DeparserImpl(packet_out packet, in headers hdr) { apply { packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); } }
V1Switch(ParserImpl(), nothing(), ingress(), egress(), nothing(), DeparserImpl()) main;
