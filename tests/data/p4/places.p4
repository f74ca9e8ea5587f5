// Places that need storage of their own: keys that are computed, elements of stacks, standard metadata that is written, controls that are applied
// twice, arguments that are copied.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> c; }
header item_t { bit<8> v; }

struct headers { kind_t h; item_t[3] items; }
struct meta_t { bit<8> found; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.items[2]);
        packet.extract(hdr.items[0]);
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

bit<8> twice(inout bit<8> x) { x = x + 1; return x + x; }

/// Counts what it is applied to, so that two applications are the same instance.
control Mark(in bit<8> plus, inout bit<8> value) {
    register<bit<8>>(1) seen;
    action add(bit<8> more) { value = value + plus + more; }
    table t { key = { value: ternary; } actions = { add; } const default_action = add(0);
        const entries = { 0x13 &&& 0x0f: add(0x10); } }
    apply {
        bit<8> n;
        seen.read(n, 0);
        seen.write(0, n + 1);
        t.apply();
        value = value + n;
    }
}

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Mark() mark;
    action both(inout bit<8> x, inout bit<8> y) { x = x + 1; y = y + 2; }
    action found() { meta.found = 1; }
    table constant {
        key = { 8w3: exact; }
        actions = { found; NoAction; }
        const default_action = NoAction();
        const entries = { 3: found(); }
    }
    table stepwise {
        key = { twice(hdr.h.b): exact @name("doubled"); }
        actions = { both(hdr.h.c, hdr.h.c); NoAction; }
        default_action = NoAction();
    }
    apply {
        sm.egress_spec = 2;
        if (hdr.h.kind == 0) {
            mark.apply(1, hdr.h.a);
            mark.apply(hdr.h.c, hdr.h.b);
        } else if (hdr.h.kind == 1) {
            constant.apply();
            hdr.h.a = meta.found;
            stepwise.apply();
        } else if (hdr.h.kind == 2) {
            sm.ingress_port = sm.ingress_port + 4;
            hdr.h.a = (bit<8>) sm.ingress_port;
            sm.mcast_grp = 9;
        } else {
            tuple<bit<8>, bit<8>> t = { hdr.h.a, twice(hdr.h.a) };
            hdr.h.b = t[0];
            hdr.h.c = t[1];
        }
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.kind == 2) {
            hdr.h.b = (bit<8>) sm.mcast_grp;
            hdr.h.c = (bit<8>) sm.ingress_port;
        }
    }
}

control D(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.h); packet.emit(hdr.items[0]); packet.emit(hdr.items[2]); }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
