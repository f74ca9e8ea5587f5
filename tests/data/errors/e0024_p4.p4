#include <core.p4>
#include <v1modle.p4>
const bit<8> a = 1;
const bit<16> b = a;
header h_t { bit<8> f; }
parser p(packet_in b, out h_t h) {
    state start {
        b.extract(h);
        h.f = 16w1 + true;
        transition select (h.g) { 1: accpet; }
    }
}
