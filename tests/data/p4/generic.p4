// Parsers and controls of the package that have type parameters.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> a; }
struct meta_t { bit<8> m; }
struct of_t<T> { T inner; }

parser Extract<H>(packet_in packet, out of_t<H> hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.inner);
        meta.m = 4;
        transition accept;
    }
}
control Nothing<H, M>(inout H hdr, inout M meta) { apply { H before = hdr; hdr = before; } }
control In(inout of_t<kind_t> hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        hdr.inner.a = meta.m;
    }
}
control Eg<H>(inout H hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Deparse<H>(packet_out packet, in H hdr) { apply { packet.emit(hdr); } }

V1Switch(Extract<kind_t>(), Nothing<of_t<kind_t>, meta_t>(), In(), Eg<of_t<kind_t>>(), Nothing<of_t<kind_t>, meta_t>(), Deparse<of_t<kind_t>>()) main;
