// A value of the wrong type, and a block without the parameters that the architecture asks for: what to write instead.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<1> a; bit<7> b; }
struct hd { h_t h; }
struct none { }

parser P(packet_in p, out hd h, inout none m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout hd h, inout none m) { apply { } }
control I(inout hd h, inout none m, inout standard_metadata_t s) {
    apply {
        h.h.a = h.h.isValid();
        if (h.h.a) { h.h.b = h.h.a; }
    }
}
control E(inout hd h, inout none m) { apply { } }
control D(packet_out p, in hd h) { apply { p.emit(h.h); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
