#include <v1model.p4>
header h_t { bit<32> a; }
struct H { h_t h; }
struct M { bit<256> wide; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply { m.wide = m.wide + 1; m.wide = -m.wide; m.wide = m.wide << h.h.a; s.egress_spec = 2; }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h.h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
