// A switch of v1model with what a controller writes: every kind of match, a selector, counters, registers, digests, packets in and out,
// numbers and names of the source's own, and a type that the controller writes as a text.
#include <core.p4>
#include <v1model.p4>

#ifndef CPU
#define CPU 255
#endif

@p4runtime_translation("wireyard.example/port", string)
type bit<9> port_name_t;
typedef bit<48> mac_t;

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; @id(5) bit<7> reason; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> pad; }
header ethernet_t { mac_t dst; mac_t src; bit<16> kind; }
struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; }
struct learn_t { mac_t mac; bit<9> port; bool tagged; }
struct metadata { bit<8> class; bit<7> reason; bit<32> before; }

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        transition select (standard.ingress_port) {
            CPU: from_controller;
            default: ethernet;
        }
    }
    state from_controller { packet.extract(hdr.packet_out); transition ethernet; }
    state ethernet { packet.extract(hdr.ethernet); transition accept; }
}

control Verify(inout headers hdr, inout metadata meta) { apply { } }

control Steered(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    counter(8, CounterType.packets_and_bytes) seen;
    register<bit<32>>(4) marks;
    register<bool>(2) flags;
    direct_counter(CounterType.packets_and_bytes) hits;
    action_selector(HashAlgorithm.crc16, 32w64, 32w14) ways_profile;

    action forward(@id(9) bit<9> port) { standard.egress_spec = port; }
    action to_controller(bit<7> reason) { meta.reason = reason; standard.egress_spec = CPU; }
    action deny() { mark_to_drop(standard); }
    action rate(inout bit<8> class, bit<8> value) { class = value; }
    action by_name(port_name_t port) { standard.egress_spec = (bit<9>) port; }
    action counted(bit<9> port) { hits.count(); standard.egress_spec = port; }

    @id(0x1234) table fwd {
        key = { hdr.ethernet.dst: exact @name("dst"); }
        actions = { counted; to_controller; deny; }
        default_action = deny();
        counters = hits;
        size = 64;
    }
    table acl {
        key = { hdr.ethernet.src: ternary; hdr.ethernet.kind: range; hdr.ethernet.dst: optional; }
        actions = { rate(meta.class); @defaultonly NoAction; @tableonly deny; }
        default_action = NoAction();
    }
    table routes {
        key = { hdr.ethernet.dst: lpm @id(4); }
        actions = { rate(meta.class); forward; NoAction; }
        default_action = NoAction();
    }
    table ways {
        key = { hdr.ethernet.kind: exact; hdr.ethernet.dst: selector; }
        actions = { forward; NoAction; }
        implementation = ways_profile;
    }
    @name("by.name") table named {
        key = { (port_name_t) standard.ingress_port: exact @name("port"); }
        actions = { by_name; NoAction; }
        default_action = NoAction();
    }
    @hidden table inner {
        key = { meta.class: exact; }
        actions = { NoAction; }
    }
    apply {
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            seen.count((bit<32>) standard.ingress_port);
            marks.read(meta.before, 1);
            marks.write(0, (bit<32>) hdr.ethernet.kind);
            flags.write(1, hdr.ethernet.kind == 0x8100);
            fwd.apply();
            acl.apply();
            routes.apply();
            ways.apply();
            named.apply();
            inner.apply();
            if (hdr.ethernet.kind == 0x88b5) {
                digest<learn_t>(1, { hdr.ethernet.src, standard.ingress_port, false });
            } else if (hdr.ethernet.kind == 0x88b6) {
                digest<learn_t>(1, { hdr.ethernet.dst, standard.ingress_port, true });
            }
        }
    }
}

control Leaving(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == CPU) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard.ingress_port;
            hdr.packet_in.reason = meta.reason;
        }
    }
}

control Compute(inout headers hdr, inout metadata meta) { apply { } }
control Deparse(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.packet_in); packet.emit(hdr.ethernet); }
}

V1Switch(Parse(), Verify(), Steered(), Leaving(), Compute(), Deparse()) main;
