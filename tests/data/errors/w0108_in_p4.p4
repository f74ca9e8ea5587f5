#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<16> checksum; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply { h.h.a = 1; s.egress_spec = 2; exit; h.h.b = 1; }
}
control E(inout H h, inout M m, inout standard_metadata_t s) {
    apply { clone(CloneType.E2E, 5); recirculate_preserving_field_list(0); }
}
control D(packet_out p, in H h) { apply { p.emit(h.h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
