// Tables whose entries have more than a key and an action: a timeout, a counter, a meter; constant ones; profiles with bounds; and a table without a key.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { ethernet_t ethernet; }
struct metadata { bit<8> color; }

parser Parse(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control Verify(inout headers hdr, inout metadata meta) { apply { } }
control Entries(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_counter(CounterType.packets_and_bytes) constant_hits;
    counter(4, CounterType.packets) all;
    direct_meter<bit<8>>(MeterType.packets) rates;

    action forward(bit<9> port) { hits.count(); rates.read(meta.color); standard.egress_spec = port; }
    action leave(bit<9> port) { standard.egress_spec = port; }
    action seen() { constant_hits.count(); }
    action nothing() { }

    table aged {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; NoAction; }
        default_action = NoAction();
        counters = hits;
        meters = rates;
        support_timeout = true;
    }
    table constant {
        key = { hdr.ethernet.kind: exact; }
        actions = { seen; NoAction; }
        const default_action = NoAction();
        const entries = { 0x1234: seen(); }
        counters = constant_hits;
    }
    @max_group_size(3) action_selector(HashAlgorithm.crc16, 64, 8) ways;
    @max_group_size(2) @selector_size_semantics("sum_of_members") @max_member_weight(10) action_selector(HashAlgorithm.crc16, 64, 8) heavy;
    table chosen {
        key = { hdr.ethernet.dst: exact; hdr.ethernet.src: selector; }
        actions = { leave; NoAction; }
        default_action = NoAction();
        implementation = ways;
    }
    table weighed {
        key = { hdr.ethernet.dst: exact; hdr.ethernet.src: selector; }
        actions = { leave; NoAction; }
        default_action = NoAction();
        implementation = heavy;
    }
    table mixed {
        key = { hdr.ethernet.kind: ternary; }
        actions = { leave; NoAction; }
        default_action = NoAction();
        entries = { const 0x1111: leave(1); 0x2200 &&& 0xff00: leave(2); }
    }
    table keyless {
        actions = { nothing; NoAction; }
        default_action = NoAction();
    }
    apply { all.count(0); aged.apply(); constant.apply(); chosen.apply(); weighed.apply(); mixed.apply(); keyless.apply(); }
}
control Leave(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) { apply { } }
control Sum(inout headers hdr, inout metadata meta) { apply { } }
control Deparse(packet_out packet, in headers hdr) { apply { packet.emit(hdr.ethernet); } }

V1Switch(Parse(), Verify(), Entries(), Leave(), Sum(), Deparse()) main;
