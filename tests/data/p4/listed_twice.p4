// Names that several things have, and digests without one.
#include <core.p4>
#include <v1model.p4>

enum bit<8> kinds_t { ONE = 1, TWO = 2, MORE = 7 }
header kind_t { bit<8> a; kinds_t k; }
struct said_t { @name("first") bit<8> a; }

struct headers { kind_t h; }
struct meta_t {}

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    value_set<kinds_t>(4) kinds;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.k) { kinds: accept; default: reject; }
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

control Counted()(bit<32> size) {
    counter(size, CounterType.packets) passed;
    apply { passed.count(0); }
}

control counted_t();
control Given(inout headers hdr)(counted_t counted) {
    apply { counted.apply(); }
}

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    Counted(16) seen;
    Counted(32) unused;
    Given(seen) given;
    counter(8, CounterType.bytes) same;
    direct_counter(CounterType.packets) alone;
    action tell() { digest(1, { hdr.h.a, hdr.h.k }); }
    table t { key = { hdr.h.k : exact; } actions = { tell; NoAction; } default_action = NoAction(); }
    table asked { key = { t.apply().hit : exact @name("hit"); } actions = { NoAction; } }
    apply {
        asked.apply();
        given.apply(hdr);
        same.count(1);
        digest(1, { hdr.h.a, hdr.h.k });
        digest<said_t>(1, { hdr.h.a });
    }
}

control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action t() {}
    action alone() { t(); }
    table same { actions = { t; alone; } default_action = t(); }
    apply { same.apply(); alone(); }
}
control D(packet_out packet, in headers hdr) { apply {} }

V1Switch(P(), V(), I(), E(), U(), D()) main;
