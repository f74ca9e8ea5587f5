// A parser state with more conditions than a packet may visit states in a loop; entries with priorities that no table has.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<8> c; }
struct headers { h_t h; }
struct meta_t { bit<8> m; }

parser P(packet_in packet, out headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        if (hdr.h.a == 0) { meta.m = meta.m + 1; }
        if (hdr.h.a == 1) { meta.m = meta.m + 1; }
        if (hdr.h.a == 2) { meta.m = meta.m + 1; }
        if (hdr.h.a == 3) { meta.m = meta.m + 1; }
        if (hdr.h.a == 4) { meta.m = meta.m + 1; }
        if (hdr.h.a == 5) { meta.m = meta.m + 1; }
        if (hdr.h.a == 6) { meta.m = meta.m + 1; }
        if (hdr.h.a == 7) { meta.m = meta.m + 1; }
        if (hdr.h.a == 8) { meta.m = meta.m + 1; }
        if (hdr.h.a == 9) { meta.m = meta.m + 1; }
        if (hdr.h.a == 10) { meta.m = meta.m + 1; }
        if (hdr.h.a == 11) { meta.m = meta.m + 1; }
        if (hdr.h.a == 12) { meta.m = meta.m + 1; }
        if (hdr.h.a == 13) { meta.m = meta.m + 1; }
        if (hdr.h.a == 14) { meta.m = meta.m + 1; }
        if (hdr.h.a == 15) { meta.m = meta.m + 1; }
        if (hdr.h.a == 16) { meta.m = meta.m + 1; }
        if (hdr.h.a == 17) { meta.m = meta.m + 1; }
        if (hdr.h.a == 18) { meta.m = meta.m + 1; }
        if (hdr.h.a == 19) { meta.m = meta.m + 1; }
        if (hdr.h.a == 20) { meta.m = meta.m + 1; }
        if (hdr.h.a == 21) { meta.m = meta.m + 1; }
        if (hdr.h.a == 22) { meta.m = meta.m + 1; }
        if (hdr.h.a == 23) { meta.m = meta.m + 1; }
        if (hdr.h.a == 24) { meta.m = meta.m + 1; }
        if (hdr.h.a == 25) { meta.m = meta.m + 1; }
        if (hdr.h.a == 26) { meta.m = meta.m + 1; }
        if (hdr.h.a == 27) { meta.m = meta.m + 1; }
        if (hdr.h.a == 28) { meta.m = meta.m + 1; }
        if (hdr.h.a == 29) { meta.m = meta.m + 1; }
        if (hdr.h.a == 30) { meta.m = meta.m + 1; }
        if (hdr.h.a == 31) { meta.m = meta.m + 1; }
        if (hdr.h.a == 32) { meta.m = meta.m + 1; }
        if (hdr.h.a == 33) { meta.m = meta.m + 1; }
        if (hdr.h.a == 34) { meta.m = meta.m + 1; }
        if (hdr.h.a == 35) { meta.m = meta.m + 1; }
        if (hdr.h.a == 36) { meta.m = meta.m + 1; }
        if (hdr.h.a == 37) { meta.m = meta.m + 1; }
        if (hdr.h.a == 38) { meta.m = meta.m + 1; }
        if (hdr.h.a == 39) { meta.m = meta.m + 1; }
        if (hdr.h.a == 40) { meta.m = meta.m + 1; }
        if (hdr.h.a == 41) { meta.m = meta.m + 1; }
        if (hdr.h.a == 42) { meta.m = meta.m + 1; }
        if (hdr.h.a == 43) { meta.m = meta.m + 1; }
        if (hdr.h.a == 44) { meta.m = meta.m + 1; }
        if (hdr.h.a == 45) { meta.m = meta.m + 1; }
        if (hdr.h.a == 46) { meta.m = meta.m + 1; }
        if (hdr.h.a == 47) { meta.m = meta.m + 1; }
        if (hdr.h.a == 48) { meta.m = meta.m + 1; }
        if (hdr.h.a == 49) { meta.m = meta.m + 1; }
        if (hdr.h.a == 50) { meta.m = meta.m + 1; }
        if (hdr.h.a == 51) { meta.m = meta.m + 1; }
        if (hdr.h.a == 52) { meta.m = meta.m + 1; }
        if (hdr.h.a == 53) { meta.m = meta.m + 1; }
        if (hdr.h.a == 54) { meta.m = meta.m + 1; }
        if (hdr.h.a == 55) { meta.m = meta.m + 1; }
        if (hdr.h.a == 56) { meta.m = meta.m + 1; }
        if (hdr.h.a == 57) { meta.m = meta.m + 1; }
        if (hdr.h.a == 58) { meta.m = meta.m + 1; }
        if (hdr.h.a == 59) { meta.m = meta.m + 1; }
        if (hdr.h.a == 60) { meta.m = meta.m + 1; }
        if (hdr.h.a == 61) { meta.m = meta.m + 1; }
        if (hdr.h.a == 62) { meta.m = meta.m + 1; }
        if (hdr.h.a == 63) { meta.m = meta.m + 1; }
        if (hdr.h.a == 64) { meta.m = meta.m + 1; }
        if (hdr.h.a == 65) { meta.m = meta.m + 1; }
        if (hdr.h.a == 66) { meta.m = meta.m + 1; }
        if (hdr.h.a == 67) { meta.m = meta.m + 1; }
        if (hdr.h.a == 68) { meta.m = meta.m + 1; }
        if (hdr.h.a == 69) { meta.m = meta.m + 1; }
        if (hdr.h.a == 70) { meta.m = meta.m + 1; }
        if (hdr.h.a == 71) { meta.m = meta.m + 1; }
        if (hdr.h.a == 72) { meta.m = meta.m + 1; }
        if (hdr.h.a == 73) { meta.m = meta.m + 1; }
        if (hdr.h.a == 74) { meta.m = meta.m + 1; }
        if (hdr.h.a == 75) { meta.m = meta.m + 1; }
        if (hdr.h.a == 76) { meta.m = meta.m + 1; }
        if (hdr.h.a == 77) { meta.m = meta.m + 1; }
        if (hdr.h.a == 78) { meta.m = meta.m + 1; }
        if (hdr.h.a == 79) { meta.m = meta.m + 1; }
        if (hdr.h.a == 80) { meta.m = meta.m + 1; }
        if (hdr.h.a == 81) { meta.m = meta.m + 1; }
        if (hdr.h.a == 82) { meta.m = meta.m + 1; }
        if (hdr.h.a == 83) { meta.m = meta.m + 1; }
        if (hdr.h.a == 84) { meta.m = meta.m + 1; }
        if (hdr.h.a == 85) { meta.m = meta.m + 1; }
        if (hdr.h.a == 86) { meta.m = meta.m + 1; }
        if (hdr.h.a == 87) { meta.m = meta.m + 1; }
        if (hdr.h.a == 88) { meta.m = meta.m + 1; }
        if (hdr.h.a == 89) { meta.m = meta.m + 1; }
        if (hdr.h.a == 90) { meta.m = meta.m + 1; }
        if (hdr.h.a == 91) { meta.m = meta.m + 1; }
        if (hdr.h.a == 92) { meta.m = meta.m + 1; }
        if (hdr.h.a == 93) { meta.m = meta.m + 1; }
        if (hdr.h.a == 94) { meta.m = meta.m + 1; }
        if (hdr.h.a == 95) { meta.m = meta.m + 1; }
        if (hdr.h.a == 96) { meta.m = meta.m + 1; }
        if (hdr.h.a == 97) { meta.m = meta.m + 1; }
        if (hdr.h.a == 98) { meta.m = meta.m + 1; }
        if (hdr.h.a == 99) { meta.m = meta.m + 1; }
        if (hdr.h.a == 100) { meta.m = meta.m + 1; }
        if (hdr.h.a == 101) { meta.m = meta.m + 1; }
        if (hdr.h.a == 102) { meta.m = meta.m + 1; }
        if (hdr.h.a == 103) { meta.m = meta.m + 1; }
        if (hdr.h.a == 104) { meta.m = meta.m + 1; }
        if (hdr.h.a == 105) { meta.m = meta.m + 1; }
        if (hdr.h.a == 106) { meta.m = meta.m + 1; }
        if (hdr.h.a == 107) { meta.m = meta.m + 1; }
        if (hdr.h.a == 108) { meta.m = meta.m + 1; }
        if (hdr.h.a == 109) { meta.m = meta.m + 1; }
        if (hdr.h.a == 110) { meta.m = meta.m + 1; }
        if (hdr.h.a == 111) { meta.m = meta.m + 1; }
        if (hdr.h.a == 112) { meta.m = meta.m + 1; }
        if (hdr.h.a == 113) { meta.m = meta.m + 1; }
        if (hdr.h.a == 114) { meta.m = meta.m + 1; }
        if (hdr.h.a == 115) { meta.m = meta.m + 1; }
        if (hdr.h.a == 116) { meta.m = meta.m + 1; }
        if (hdr.h.a == 117) { meta.m = meta.m + 1; }
        if (hdr.h.a == 118) { meta.m = meta.m + 1; }
        if (hdr.h.a == 119) { meta.m = meta.m + 1; }
        if (hdr.h.a == 120) { meta.m = meta.m + 1; }
        if (hdr.h.a == 121) { meta.m = meta.m + 1; }
        if (hdr.h.a == 122) { meta.m = meta.m + 1; }
        if (hdr.h.a == 123) { meta.m = meta.m + 1; }
        if (hdr.h.a == 124) { meta.m = meta.m + 1; }
        if (hdr.h.a == 125) { meta.m = meta.m + 1; }
        if (hdr.h.a == 126) { meta.m = meta.m + 1; }
        if (hdr.h.a == 127) { meta.m = meta.m + 1; }
        if (hdr.h.a == 128) { meta.m = meta.m + 1; }
        if (hdr.h.a == 129) { meta.m = meta.m + 1; }
        meta.m = meta.m + 0x40;
        transition accept;
    }
}

control V(inout headers hdr, inout meta_t meta) { apply {} }
control I(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action chosen(bit<8> n) { hdr.h.b = n; }
    action smallest(bit<8> n) { hdr.h.c = n; }
    table from_zero {
        key = { hdr.h.a: ternary; }
        actions = { chosen; NoAction; }
        default_action = NoAction;
        largest_priority_wins = true;
        entries = {
            priority=0: 0x01 &&& 0x01: chosen(1);
            priority=1: 0x03 &&& 0x03: chosen(2);
        }
    }
    table large {
        key = { hdr.h.a: ternary; }
        actions = { smallest; NoAction; }
        default_action = NoAction;
        largest_priority_wins = false;
        entries = {
            priority=20000002: 0x01 &&& 0x01: smallest(1);
            priority=20000001: 0x03 &&& 0x03: smallest(2);
        }
    }
    apply {
        from_zero.apply();
        large.apply();
        hdr.h.a = meta.m;
        sm.egress_spec = 2;
    }
}
control E(inout headers hdr, inout meta_t meta, inout standard_metadata_t sm) { apply {} }
control D(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(P(), V(), I(), E(), V(), D()) main;
