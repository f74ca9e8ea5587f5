// Indices outside of stacks, registers, counters and meters: in turns of loops that no packet takes, constant, and computed.
#include <core.p4>
#include <v1model.p4>

header head_t { bit<8> what; bit<8> count; bit<8> sum; }
header item_t { bit<8> value; }
struct headers { head_t head; item_t[3] items; }
struct metadata { bit<8> left; }

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.head);
        meta.left = hdr.head.count;
        transition items;
    }
    state items {
        transition select(meta.left) { 0: accept; default: item; }
    }
    state item {
        packet.extract(hdr.items.next);
        meta.left = meta.left - 1;
        transition items;
    }
}
control Nothing(inout headers hdr, inout metadata meta) { apply { } }
control In(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    register<bit<8>>(2) cells;
    register<bit<96>>(2) wide;
    counter(2, CounterType.packets) seen;
    meter(2, MeterType.packets) limit;
    apply {
        standard.egress_spec = 2;
        if (hdr.head.what == 1) {
            for (bit<8> i = 0; i < hdr.head.count; i = i + 1) {
                if (hdr.items[i].isValid()) {
                    hdr.head.sum = hdr.head.sum + hdr.items[i].value;
                    hdr.items[i].value[3:0] = 15;
                }
            }
        } else if (hdr.head.what == 2) {
            for (bit<8> i = 0; i < hdr.head.count; i = i + 1) {
                hdr.items[i].setInvalid();
                hdr.items[i + 1].setInvalid();
            }
        } else if (hdr.head.what == 3) {
            for (bit<32> i = 0; i < (bit<32>)hdr.head.count; i = i + 1) {
                bit<8> before;
                cells.read(before, i);
                hdr.head.sum = hdr.head.sum + before + 1;
                cells.write(i, 0x40);
                seen.count(i);
            }
        } else {
            bit<8> cell = 9;
            bit<96> number = 9;
            bit<2> color = 3;
            cells.write(2, 0xff);
            cells.read(cell, 2);
            wide.write(7, 0xff);
            wide.read(number, 7);
            limit.execute_meter(2, color);
            seen.count(2);
            hdr.head.sum = cell + number[7:0] + (bit<8>)color;
        }
    }
}
control Out(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }
control Deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr); } }

V1Switch(Parse(), Nothing(), In(), Out(), Nothing(), Deparse()) main;
