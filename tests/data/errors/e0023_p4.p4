#define TWO(a, b) a
#incldue <core.p4>
const bit<8> x = TWO(1);
#ifdef A
const bit<8> a = 1;
