// Tables and actions of one name in blocks of several levels: scripts name them by their blocks.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> a; bit<8> b; }

struct headers { kind_t h; }
struct meta_t {}

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

control One(inout kind_t h) {
    action add(bit<8> more) { h.b = h.b + more; }
    table t { key = { h.a: exact; } actions = { add; } default_action = add(1); }
    apply { t.apply(); }
}

control Two(inout kind_t h) {
    One() inner;
    action add(bit<8> more) { h.b = h.b + more; }
    table t { key = { h.a: exact; } actions = { add; } default_action = add(0x10); }
    apply { inner.apply(h); t.apply(); }
}

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    One() inner;
    Two() b;
    Two() c;
    action set(bit<8> h) { hdr.h.b = h; }
    table last { key = { hdr.h.a: exact; } actions = { set; NoAction; } default_action = NoAction(); }
    apply { sm.egress_spec = 2; inner.apply(hdr.h); b.apply(hdr.h); c.apply(hdr.h); last.apply(); }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
