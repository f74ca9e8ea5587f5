// A router of v1model, with what most programs have: a stack, a checksum, a table, a counter, an action with a direction.
#include <core.p4>
#include <v1model.p4>

#define ETHERTYPE_IPV4 0x0800
typedef bit<48> mac_t;
typedef bit<9> port_t;
enum bit<16> Kind { IPV4 = ETHERTYPE_IPV4, VLAN = 0x8100 }
error { BadVersion }

header ethernet_t { mac_t dst; mac_t src; Kind kind; }
header vlan_t { bit<3> pcp; bool dei; bit<12> vid; Kind kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
struct headers { ethernet_t ethernet; vlan_t[2] vlan; ipv4_t ipv4; }
struct flow_t { bit<8> ttl; int<8> signed_ttl; }
struct metadata { flow_t flow; bit<1> routed; }

parser Tags(packet_in packet, inout headers hdr, out Kind kind) {
    state start {
        packet.extract(hdr.vlan.next);
        kind = hdr.vlan.last.kind;
        transition select (hdr.vlan.last.kind) {
            Kind.VLAN: start;
            default: accept;
        }
    }
}

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    Kind kind;
    Tags() tags;
    state start {
        packet.extract(hdr.ethernet);
        kind = hdr.ethernet.kind;
        transition select (kind) {
            Kind.VLAN: tagged;
            default: network;
        }
    }
    state tagged {
        tags.apply(packet, hdr, kind);
        transition network;
    }
    state network {
        transition select (kind) {
            Kind.IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4, error.BadVersion);
        transition accept;
    }
}

control Verify(inout headers hdr, inout metadata meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
            hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

bit<8> less(in bit<8> value) {
    if (value == 0) { return 0; }
    return value - 1;
}

control Forward(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    counter(16, CounterType.packets) seen;
    action age(inout bit<8> ttl) { ttl = less(ttl); }
    action route(port_t port, mac_t next_hop) {
        standard.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = next_hop;
        meta.routed = 1;
        age(hdr.ipv4.ttl);
    }
    action refuse() { mark_to_drop(standard); }
    table fib {
        key = { hdr.ipv4.dst: lpm; }
        actions = { route; refuse; }
        default_action = refuse();
        const entries = { 0x0a000000 &&& 0xff000000: route(2, 0x020000000002); }
    }
    apply {
        seen.count((bit<32>) standard.ingress_port);
        if (standard.checksum_error == 1 || standard.parser_error != error.NoError || !hdr.ipv4.isValid()) {
            refuse();
            return;
        }
        meta.flow.signed_ttl = (int<8>) hdr.ipv4.ttl;
        if (meta.flow.signed_ttl < 0 && hdr.ipv4.tos == 0) {
            hdr.ipv4.tos = 8w1 |+| 0xff;
        }
        if (!fib.apply().hit) {
            exit;
        }
        switch (fib.apply().action_run) {
            route: { meta.flow.ttl = hdr.ipv4.ttl; }
            default: { meta.flow.ttl = 0; }
        }
    }
}

control Leave(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        if (meta.routed == 1 && meta.flow.ttl == 0) {
            mark_to_drop(standard);
        }
        if (hdr.vlan[0].isValid()) {
            hdr.ethernet.kind = hdr.vlan[0].kind;
            hdr.vlan.pop_front(1);
        }
    }
}

control Compute(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id,
            hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(Parse(), Verify(), Forward(), Leave(), Compute(), Deparse()) main;
