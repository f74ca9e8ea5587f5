// Names that the tree has to make, beside names of the source that are the same.
#include <core.p4>
#include <v1model.p4>

struct part_t { bit<8> b; bit<8> length; }
struct deep_t { part_t s; }
header kind_t {
    bit<8> kind;
    part_t s;
    bit<8> s_b;
    bit<8> s_length;
    deep_t d;
    bit<8> d_s_b;
    bit<8> valid;
    bit<8> valid_;
    bit<8> length;
    bit<8> length_;
}
struct cell_t { part_t s; bit<8> s_b; bit<100> wide; bit<8> wide_high; }
struct headers { kind_t h; }
struct meta_t { bit<8> m; bit<8> h_kind; }
error { none, no_match, none_, stack_overflow }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        verify(hdr.h.kind != 9, error.none);
        verify(hdr.h.kind != 8, error.no_match);
        verify(hdr.h.kind != 7, error.none_);
        transition accept;
    }
}
control V(inout headers hdr, inout meta_t meta) { apply {} }
control U(inout headers hdr, inout meta_t meta) { apply {} }

control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<cell_t>(4) cells;
    action given(part_t s, bit<8> s_b, bit<8> hdr, bit<8> pass, bit<8> pass_) {
        meta.m = s.b + s.length + s_b + hdr + pass + pass_;
    }
    table of_given {
        key = { hdr.h.kind: exact; }
        actions = { given; }
        const default_action = given({ 1, 2 }, 4, 8, 16, 32);
    }
    apply {
        sm.egress_spec = 2;
        if (sm.parser_error == error.none) { hdr.h.kind = 0xe1; }
        else if (sm.parser_error == error.no_match) { hdr.h.kind = 0xe2; }
        else if (sm.parser_error == error.none_) { hdr.h.kind = 0xe3; }
        else if (sm.parser_error == error.NoError) {
            if (hdr.h.kind == 1) {
                hdr.h.s = { 0x11, 0x12 };
                hdr.h.s_b = 0x13;
                hdr.h.s_length = 0x14;
                hdr.h.d.s = hdr.h.s;
                hdr.h.d_s_b = 0x15;
                hdr.h.valid = 0x16;
                hdr.h.valid_ = 0x17;
                hdr.h.length = 0x18;
                hdr.h.length_ = 0x19;
            } else if (hdr.h.kind == 2) {
                cell_t cell = { { 1, 2 }, 3, 0x123456789abcdef0123456789, 4 };
                cells.write(1, cell);
                cell_t read;
                cells.read(read, 1);
                hdr.h.s = read.s;
                hdr.h.s_b = read.s_b;
                hdr.h.s_length = read.wide_high;
                hdr.h.d = { { read.wide[99:92], read.wide[7:0] } };
            } else if (hdr.h.kind == 3) {
                of_given.apply();
                hdr.h.length_ = meta.m;
            }
        }
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), U(), D()) main;
