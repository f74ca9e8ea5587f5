// Packets that enter ingress again: ingress finds how in `instance_type`, and to egress they are normal ones. An element of a stack leaves
// in front of all of it.
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; bit<8> passes; bit<8> type; }
header item_t { bit<8> v; }
struct headers_t { kind_t h; item_t[3] items; }
struct meta_t { @field_list(1) bit<8> passes; bit<8> lost; }

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            3: items;
            default: accept;
        }
    }
    state items {
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}
control Nothing(inout headers_t hdr, inout meta_t meta) { apply { } }
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        meta.passes = meta.passes + 1;
        meta.lost = meta.lost + 1;
        if (hdr.h.kind == 1 && meta.passes < 3) { resubmit_preserving_field_list(1); }
        hdr.h.passes = meta.passes + 16 * meta.lost;
        hdr.h.type = 16 * (bit<8>) std.instance_type;
    }
}
control Eg(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.h.kind == 2 && meta.passes < 3) {
            recirculate_preserving_field_list(1);
            if (meta.passes == 2) { exit; }
        }
        hdr.h.type = hdr.h.type + (bit<8>) std.instance_type;
    }
}
control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
        packet.emit(hdr.items[1]);
        packet.emit(hdr.items);
    }
}

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
