-- The same 50,000 orders of 500 customers twice: in one table they are found by an index, in the other by reading all.
create table indexed (id bigserial primary key, customer int not null, item text not null, cents int not null);
insert into indexed (customer, item, cents)
    select 1 + n % 500, 'item ' || n % 97, n % 10000 from generate_series(1, 50000) as n;
create table scanned (like indexed including defaults);
insert into scanned select * from indexed;
create index on indexed (customer);
vacuum analyze indexed, scanned;
