#include <v1model.p4>
header h_t { bit<8> a; }
struct H { h_t h; }
struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control C(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    apply {
        s.drop = 1;
        s.resubmit_flag = 1;
        s.intrinsic_metadata.mcast_grp = 1;
        s.egres_spec = 1;
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { if (s.recirculate_flag == 0 && s.clone_spec == 0) { } } }
control D(packet_out p, in H h) { apply { p.emit(h.h); } }
V1Switch(P(), C(), I(), E(), C(), D()) main;
