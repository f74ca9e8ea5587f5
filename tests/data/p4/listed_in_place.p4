// Counters and meters that are made where a table names them: those with a name are listed, by that name.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; }
struct headers { h_t h; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    table named {
        key = { hdr.h.a: exact; }
        actions = { NoAction; }
        @name("named_counter") counters = direct_counter(CounterType.packets);
    }
    table other {
        key = { hdr.h.a: exact; }
        actions = { NoAction; }
        @name("other_counter") counters = direct_counter(CounterType.packets_and_bytes);
    }
    table unnamed {
        key = { hdr.h.a: exact; }
        actions = { NoAction; }
        counters = direct_counter(CounterType.bytes);
    }
    apply { named.apply(); other.apply(); unnamed.apply(); }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
