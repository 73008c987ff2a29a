// Package techempower is what TechEmpower's tests in Go share: the database by pgx, the page of fortunes, and flags.
package techempower

import (
	"context"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	worlds  = 10000
	maxRows = 500

	oneWorld  = "select id, randomnumber from world where id = $1"
	allWorlds = "select id, randomnumber from world"
	fortunes  = "select id, message from fortune"
	update    = "update world set randomnumber = new.number " +
		"from unnest($1::int[], $2::int[]) as new (id, number) where world.id = new.id"
)

// World is one row of the table of worlds.
type World struct {
	ID           int32 `json:"id"`
	RandomNumber int32 `json:"randomNumber"`
}

// Fortune is one row of the table of fortunes.
type Fortune struct {
	ID      int32
	Message string
}

// Database is a pool of connections, and all worlds in memory.
type Database struct {
	pool  *pgxpool.Pool
	cache map[int32]World
}

// open prepares each statement on each connection at its first use, which is how pgx goes by default.
func open(url string, connections int32) (*Database, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	rows, err := pool.Query(context.Background(), allWorlds)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[World])
	if err != nil {
		return nil, err
	}
	cache := make(map[int32]World, len(all))
	for _, one := range all {
		cache[one.ID] = one
	}
	return &Database{pool, cache}, nil
}

func random() int32 {
	return rand.Int32N(worlds) + 1
}

// Count is how many rows are asked for: 1 where that is no number, and never more than maxRows.
func Count(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	return min(max(number, 1), maxRows)
}

// World is one row, drawn at random.
func (d *Database) World(ctx context.Context) (one World, err error) {
	err = d.pool.QueryRow(ctx, oneWorld, random()).Scan(&one.ID, &one.RandomNumber)
	return one, err
}

// Worlds are count rows, each by a query of its own, sent together.
func (d *Database) Worlds(ctx context.Context, count int) ([]World, error) {
	batch := &pgx.Batch{}
	for range count {
		batch.Queue(oneWorld, random())
	}
	results := d.pool.SendBatch(ctx, batch)
	defer results.Close()
	found := make([]World, count)
	for i := range found {
		if err := results.QueryRow().Scan(&found[i].ID, &found[i].RandomNumber); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Update gives count rows a new number each.
func (d *Database) Update(ctx context.Context, count int) ([]World, error) {
	found, err := d.Worlds(ctx, count)
	if err != nil {
		return nil, err
	}
	// Whoever writes the same rows locks them in the same order; one that was drawn twice is written once.
	slices.SortFunc(found, func(a, b World) int { return int(a.ID - b.ID) })
	ids, numbers := make([]int32, count), make([]int32, count)
	for i := range found {
		if i > 0 && found[i-1].ID == found[i].ID {
			found[i].RandomNumber = found[i-1].RandomNumber
		} else {
			found[i].RandomNumber = random()
		}
		ids[i], numbers[i] = found[i].ID, found[i].RandomNumber
	}
	_, err = d.pool.Exec(ctx, update, ids, numbers)
	return found, err
}

// Cached are count rows out of memory.
func (d *Database) Cached(count int) []World {
	found := make([]World, count)
	for i := range found {
		found[i] = d.cache[random()]
	}
	return found
}

// Fortunes are all fortunes and one more, sorted.
func (d *Database) Fortunes(ctx context.Context) ([]Fortune, error) {
	rows, err := d.pool.Query(ctx, fortunes)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make([]Fortune, 0, 16)
	for rows.Next() {
		var one Fortune
		if err := rows.Scan(&one.ID, &one.Message); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	found = append(found, Fortune{Message: "Additional fortune added at request time."})
	sort.Slice(found, func(i, j int) bool { return found[i].Message < found[j].Message })
	return found, rows.Err()
}
