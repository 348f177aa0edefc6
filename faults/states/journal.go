package states

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// journal lists finished walks in a file, one a line. Its methods may be called from any goroutine.
type journal struct {
	mu       sync.Mutex
	file     *os.File // nil without a path
	finished map[string]bool
	problems []Problem // of earlier explorations
}

// entry is a line of the journal. The first line has only the plan.
type entry struct {
	Plan     string    `json:"plan,omitempty"`
	Walk     string    `json:"walk,omitempty"`
	Problems []Problem `json:"problems,omitempty"`
}

// openJournal opens or creates a journal for a plan. A line that a kill has cut off is left out.
func openJournal(path, plan string) (*journal, error) {
	j := &journal{finished: map[string]bool{}}
	if path == "" {
		return j, nil
	}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("states: read the journal: %w", err)
	}
	whole := string(content[:strings.LastIndexByte(string(content), '\n')+1])
	lines := bufio.NewScanner(strings.NewReader(whole))
	lines.Buffer(nil, 1<<20)
	for at := 1; lines.Scan(); at++ {
		var read entry
		if err := json.Unmarshal(lines.Bytes(), &read); err != nil {
			return nil, fmt.Errorf("states: read the journal %s, line %d: %w", path, at, err)
		}
		switch {
		case at == 1 && read.Plan != plan:
			return nil, invalid("Options.Journal: %s is of another schema, base or version of this package; remove it to start anew", path)
		case read.Walk != "":
			j.finished[read.Walk] = true
			j.problems = append(j.problems, read.Problems...)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("states: read the journal %s: %w", path, err)
	}
	if j.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("states: open the journal: %w", err)
	}
	if err := errors.Join(j.file.Truncate(int64(len(whole))), seekEnd(j.file)); err != nil {
		_ = j.file.Close()
		return nil, fmt.Errorf("states: open the journal: %w", err)
	}
	if whole == "" {
		if err := j.write(entry{Plan: plan}); err != nil {
			_ = j.file.Close()
			return nil, err
		}
	}
	return j, nil
}

func seekEnd(file *os.File) error {
	_, err := file.Seek(0, 2)
	return err
}

func (j *journal) write(line entry) error {
	if j.file == nil {
		return nil
	}
	encoded, err := json.Marshal(line)
	if err == nil {
		_, err = j.file.Write(append(encoded, '\n'))
	}
	if err != nil {
		return fmt.Errorf("states: write the journal: %w", err)
	}
	return nil
}

// has reports whether a walk is finished.
func (j *journal) has(walk string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.finished[walk]
}

// finish records the end of a walk.
func (j *journal) finish(walk string, problems []Problem) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.finished[walk] = true
	return j.write(entry{Walk: walk, Problems: problems})
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	if err := j.file.Close(); err != nil {
		return fmt.Errorf("states: close the journal: %w", err)
	}
	return nil
}
