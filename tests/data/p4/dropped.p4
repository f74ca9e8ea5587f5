// `mark_to_drop` of a copy of the standard metadata drops where that is copied back, also what goes to a group.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> list; }
struct headers { kind_t h; }
struct meta_t { }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta_t meta) { apply { } }
control Filter(inout standard_metadata_t std, in bit<8> kind) {
    action deny() { mark_to_drop(std); }
    table t {
        key = { kind : exact; }
        actions = { deny; NoAction; }
        const entries = { 1 : deny(); }
        const default_action = NoAction();
    }
    apply { t.apply(); }
}
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    Filter() filter;
    apply {
        std.mcast_grp = 3;
        filter.apply(std, hdr.h.list);
        filter.apply(std, hdr.h.kind);
        standard_metadata_t copy = std;
        if (hdr.h.kind == 2) {
            mark_to_drop(copy);
            std = copy;
        } else if (hdr.h.kind == 3) {
            mark_to_drop(copy);
        }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        standard_metadata_t copy = std;
        if (hdr.h.kind == 4) {
            mark_to_drop(copy);
            std = copy;
        }
    }
}
control U(inout headers hdr, inout meta_t meta) { apply { } }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
