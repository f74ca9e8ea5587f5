// Registers of more than 64 bits, of structs, of bool and of signed numbers.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  kind;
    bit<96> wide;
}
struct pair_t {
    bit<8>   x;
    bit<100> y;
    bool     f;
}
struct headers_t { h_t h; }
struct none_t { }

parser Parse(packet_in packet, out headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.h); transition accept; }
}
control Nothing(inout headers_t hdr, inout none_t meta) { apply { } }

control In(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) {
    register<bit<96>>(4) wide;
    register<pair_t>(4) pairs;
    register<bit<128>>(1) constant;
    register<bool>(4) flags;
    register<int<8>>(4) signs;
    apply {
        std.egress_spec = 2;
        bit<32> at = (bit<32>)hdr.h.kind[1:0];
        if (hdr.h.kind < 0x10) {
            bit<96> before;
            wide.read(before, at);
            wide.write(at, before + hdr.h.wide);
            hdr.h.wide = before;
        } else if (hdr.h.kind < 0x20) {
            pair_t pair;
            pairs.read(pair, at);
            hdr.h.wide = pair.x ++ pair.y[87:1] ++ (bit<1>)pair.f;
            pair.x = pair.x + 1;
            pair.y = pair.y + 0x20000000000000000;
            pair.f = !pair.f;
            pairs.write(at, pair);
        } else if (hdr.h.kind < 0x30) {
            pairs.write(at, { 5, 6, true });
            constant.write(0, 128w0x1234_0000_0000_0000_0000_5678);
            bit<128> all;
            constant.read(all, 0);
            hdr.h.wide = all[95:0];
        } else {
            bool flag;
            flags.read(flag, at);
            flags.write(at, !flag);
            int<8> sign;
            signs.read(sign, at);
            signs.write(at, sign - 1);
            hdr.h.wide = flag && sign < 0 ? 96w1 : 0;
        }
    }
}
control Eg(inout headers_t hdr, inout none_t meta, inout standard_metadata_t std) { apply { } }
control Deparse(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Nothing(), In(), Eg(), Nothing(), Deparse()) main;
