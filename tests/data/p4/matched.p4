// Value sets whose members match by range, mask, prefix or not at all, in sets of one key and of several.
#include <core.p4>
#include <v1model.p4>

header sort_t {
    bit<8>  way;
    bit<8>  a;
    bit<16> b;
    bit<32> c;
    bit<8>  found;
}
struct headers_t { sort_t sort; }
struct none_t { }
struct range_t { @match(range) bit<16> b; }
struct mixed_t {
    @match(optional) bit<8>  a;
    @match(range)    bit<16> b;
    @match(lpm)      bit<32> c;
}
struct masked_t {
    bit<8>                   a;
    @match(ternary) bit<16>  b;
}

parser Parse(packet_in packet, out headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    value_set<range_t>(2) near;
    value_set<mixed_t>(3) mixed;
    value_set<masked_t>(4) masked;
    @match(ternary) value_set<bit<8>>(4) odd;
    state start {
        packet.extract(hdr.sort);
        transition select(hdr.sort.way) {
            1: one;
            2: several;
            3: beside;
            4: last;
            default: accept;
        }
    }
    state one {
        transition select(hdr.sort.b) {
            near: first;
            default: accept;
        }
    }
    state several {
        transition select(hdr.sort.a, hdr.sort.b, hdr.sort.c) {
            mixed: second;
            default: accept;
        }
    }
    // A set of two keys among other cases, of which one is a range.
    state beside {
        transition select(hdr.sort.a, hdr.sort.b) {
            (9, 1000..1999): third;
            masked: second;
            (_, 0xffff): first;
            default: accept;
        }
    }
    // A set of one of two keys.
    state last {
        transition select(hdr.sort.a, hdr.sort.b) {
            (odd, 7): first;
            (_, 7): second;
            default: accept;
        }
    }
    state first { hdr.sort.found = 1; transition accept; }
    state second { hdr.sort.found = 2; transition accept; }
    state third { hdr.sort.found = 3; transition accept; }
}
control Nothing(inout headers_t hdr, inout none_t meta) { apply { } }
control In(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 2; }
}
control Out(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) { apply { } }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.sort); } }
V1Switch(Parse(), Nothing(), In(), Out(), Nothing(), Deparse()) main;
