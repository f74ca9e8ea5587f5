// Headers that only a parser has and that are written; keys that are computed twice in one block.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> t; bit<8> x; }
struct headers { h_t a; }
struct meta_t { bit<8> k; bit<16> rid; }

h_t made(in bit<8> v) { h_t b = { 1, 2 }; b.t = v; return b; }
bit<8> twice(in bit<8> v) { bit<8> r = v; if (v > 5) { r = r + v; } return r; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    h_t outer = { 3, 4 };
    state start {
        packet.extract(hdr.a);
        h_t first = { 1, 2 };
        h_t second = first;
        second.x = 9;
        h_t third = made(7);
        if (hdr.a.t == 1) { outer.x = 8; }
        hdr.a.t = second.x + first.x + third.t;
        hdr.a.x = outer.x;
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action add(bit<8> n) { hdr.a.t = hdr.a.t + n; }
    table keyed {
        key = { twice(hdr.a.x): exact @name("k"); }
        actions = { add; NoAction; }
        const entries = { 4: add(0x10); 16: add(0x20); }
    }
    apply {
        keyed.apply();
        keyed.apply();
        clone(CloneType.I2E, 5);
        sm.egress_spec = 2;
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { if (sm.instance_type == 1) { hdr.a.x = (bit<8>) sm.egress_rid; } }
}
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
