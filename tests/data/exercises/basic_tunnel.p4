// A tunnel header of two fields between Ethernet and IPv4, switched by its number.
#include "common.p4"

const bit<16> TYPE_TUNNEL = 0x1212;
header tunnel_t { bit<16> proto_id; bit<16> dst_id; }
struct metadata { }
struct headers { ethernet_t ethernet; tunnel_t tunnel; ipv4_t ipv4; }

parser MyParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) { TYPE_TUNNEL: parse_tunnel; 0x0800: parse_ipv4; default: accept; }
    }
    state parse_tunnel {
        packet.extract(hdr.tunnel);
        transition select(hdr.tunnel.proto_id) { 0x0800: parse_ipv4; default: accept; }
    }
    state parse_ipv4 { packet.extract(hdr.ipv4); transition accept; }
}
control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) {
    counter(512, CounterType.packets_and_bytes) ingress_tunnels;
    counter(512, CounterType.packets_and_bytes) egress_tunnels;
    FORWARDING
    action tunnel_ingress(bit<16> dst_id) {
        hdr.tunnel.setValid();
        hdr.tunnel.dst_id = dst_id;
        hdr.tunnel.proto_id = hdr.ethernet.etherType;
        hdr.ethernet.etherType = TYPE_TUNNEL;
        ingress_tunnels.count((bit<32>)hdr.tunnel.dst_id);
    }
    action tunnel_forward(port_t port) { standard_metadata.egress_spec = port; }
    action tunnel_egress(mac_t dstAddr, port_t port) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dstAddr = dstAddr;
        hdr.ethernet.etherType = hdr.tunnel.proto_id;
        hdr.tunnel.setInvalid();
        egress_tunnels.count((bit<32>)hdr.tunnel.dst_id);
    }
    table tunnel_start {
        key = { hdr.ipv4.dstAddr: lpm; }
        actions = { tunnel_ingress; NoAction; }
        default_action = NoAction();
    }
    table tunnel_exact {
        key = { hdr.tunnel.dst_id: exact; }
        actions = { tunnel_forward; tunnel_egress; drop; }
        default_action = drop();
    }
    apply {
        if (hdr.ipv4.isValid() && !hdr.tunnel.isValid()) {
            tunnel_start.apply();
            if (!hdr.tunnel.isValid()) { ipv4_lpm.apply(); }
        }
        if (hdr.tunnel.isValid()) { tunnel_exact.apply(); }
    }
}
control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard_metadata) { apply { } }
control MyDeparser(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.tunnel); packet.emit(hdr.ipv4); }
}
CHECKSUMS
SWITCH
