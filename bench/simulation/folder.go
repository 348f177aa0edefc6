package simulation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// folder holds the results of cells, a file for each. A run that is started again leaves out the cells that it has.
type folder string

func (f folder) file(isReal bool, objects, replicas int) string {
	kind := "simulated"
	if isReal {
		kind = "real"
	}
	return filepath.Join(string(f), fmt.Sprintf("%s-%d-%d.json", kind, objects, replicas))
}

// has reports whether the folder has the result of a cell. It fails if the result is one of other settings.
func (f folder) has(isReal bool, cell Cell) (bool, error) {
	known, err := read(f.file(isReal, cell.Objects, cell.Replicas))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case known.Cell != cell:
		return false, fmt.Errorf("%s is a result of other settings: %+v; give another folder, or delete it", f.file(isReal, cell.Objects, cell.Replicas), known.Cell)
	}
	return true, nil
}

// put writes a result.
func (f folder) put(result Result) error {
	text, err := json.MarshalIndent(result, "", " ")
	if err != nil {
		return fmt.Errorf("encoding a result: %w", err)
	}
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return fmt.Errorf("making the folder of the results: %w", err)
	}
	name := f.file(result.Real, result.Objects, result.Replicas)
	if err := os.WriteFile(name+".part", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing a result: %w", err)
	}
	if err := os.Rename(name+".part", name); err != nil {
		return fmt.Errorf("writing a result: %w", err)
	}
	return nil
}

// all returns all results, by objects and replicas, the simulated one of a cell first.
func (f folder) all() (results []Result, err error) {
	files, err := filepath.Glob(filepath.Join(string(f), "*-*-*.json"))
	if err != nil {
		return nil, fmt.Errorf("finding results: %w", err)
	}
	for _, file := range files {
		result, err := read(file)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	slices.SortStableFunc(results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(a.Objects, b.Objects), cmp.Compare(a.Replicas, b.Replicas), compareBool(a.Real, b.Real))
	})
	return results, nil
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func read(file string) (result Result, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return result, fmt.Errorf("reading a result from %s: %w", file, err)
	}
	return result, nil
}
