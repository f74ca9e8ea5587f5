#include <v1model.p4>
header h_t { bit<16> a; bit<16> b; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    table t {
        key = { h.h.a: exact; }
        actions = { NoAction; }
        counter = 5;
        flavour = 5;
        @other("target") vintage = 7;
    }
    apply { s.egress_spec = 2; t.apply(); }
}
control E(inout H h, inout M m, inout standard_metadata_t s) {
    apply { resubmit_preserving_field_list(0); }
}
control D(packet_out p, in H h) { apply { p.emit(h.h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
