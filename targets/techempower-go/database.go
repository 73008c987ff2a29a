package main

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

type world struct {
	ID           int32 `json:"id"`
	RandomNumber int32 `json:"randomNumber"`
}

type fortune struct {
	ID      int32
	Message string
}

type database struct {
	pool  *pgxpool.Pool
	cache map[int32]world
}

// open prepares each statement on each connection at its first use, which is how pgx goes by default.
func open(url string, connections int32) (*database, error) {
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
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[world])
	if err != nil {
		return nil, err
	}
	cache := make(map[int32]world, len(all))
	for _, one := range all {
		cache[one.ID] = one
	}
	return &database{pool, cache}, nil
}

func random() int32 {
	return rand.Int32N(worlds) + 1
}

// count is how many rows are asked for: 1 where that is no number, and never more than maxRows.
func count(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		return 1
	}
	return min(max(number, 1), maxRows)
}

func (d *database) world(ctx context.Context) (one world, err error) {
	err = d.pool.QueryRow(ctx, oneWorld, random()).Scan(&one.ID, &one.RandomNumber)
	return one, err
}

// worlds are count rows, each by a query of its own, sent together.
func (d *database) worlds(ctx context.Context, count int) ([]world, error) {
	batch := &pgx.Batch{}
	for range count {
		batch.Queue(oneWorld, random())
	}
	results := d.pool.SendBatch(ctx, batch)
	defer results.Close()
	found := make([]world, count)
	for i := range found {
		if err := results.QueryRow().Scan(&found[i].ID, &found[i].RandomNumber); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (d *database) update(ctx context.Context, count int) ([]world, error) {
	found, err := d.worlds(ctx, count)
	if err != nil {
		return nil, err
	}
	// Whoever writes the same rows locks them in the same order; one that was drawn twice is written once.
	slices.SortFunc(found, func(a, b world) int { return int(a.ID - b.ID) })
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

func (d *database) cached(count int) []world {
	found := make([]world, count)
	for i := range found {
		found[i] = d.cache[random()]
	}
	return found
}

func (d *database) fortunes(ctx context.Context) ([]fortune, error) {
	rows, err := d.pool.Query(ctx, fortunes)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := make([]fortune, 0, 16)
	for rows.Next() {
		var one fortune
		if err := rows.Scan(&one.ID, &one.Message); err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	found = append(found, fortune{Message: "Additional fortune added at request time."})
	sort.Slice(found, func(i, j int) bool { return found[i].Message < found[j].Message })
	return found, rows.Err()
}
