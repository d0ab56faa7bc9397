-- The database of own_database.py: a small shop, invented.
CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    price NUMERIC NOT NULL
);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    product_id INTEGER NOT NULL REFERENCES products (id),
    day TEXT NOT NULL,
    quantity INTEGER NOT NULL
);
INSERT INTO products VALUES (1, 'Teapot', 30), (2, 'Cup', 6), (3, 'Tray', 14);
INSERT INTO orders VALUES
    (1, 1, '2026-03-02', 2),
    (2, 2, '2026-03-02', 12),
    (3, 2, '2026-03-17', 6),
    (4, 3, '2026-03-20', 3),
    (5, 1, '2026-04-01', 5),
    (6, 2, '2026-04-09', 4);
