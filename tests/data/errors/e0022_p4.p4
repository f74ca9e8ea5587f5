const bit<8> a = ;
struct s { bit<8> x }
/* no end
