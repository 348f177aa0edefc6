// Package goals prints what long tests measured, and keeps it between slices of a run.
package goals

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Line returns the line goal<TAB>name<TAB>measured<TAB>target<TAB>met|missed.
func Line(name, measured, target string, met bool) string {
	verdict := "missed"
	if met {
		verdict = "met"
	}
	return fmt.Sprintf("goal\t%s\t%s\t%s\t%s\n", name, measured, target, verdict)
}

// Load reads what earlier slices measured. It changes nothing if the file does not exist, or if its name
// is empty.
func Load(journal string, into any) error {
	if journal == "" {
		return nil
	}
	content, err := os.ReadFile(journal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return fmt.Errorf("goals: read what earlier slices measured: %w", err)
	}
	return nil
}

// Save writes what this and the earlier slices measured. It does nothing if the name of the file is empty.
func Save(journal string, measured any) error {
	if journal == "" {
		return nil
	}
	content, err := json.MarshalIndent(measured, "", "\t")
	if err == nil {
		err = os.WriteFile(journal+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(journal+".new", journal) // A slice that is killed leaves the last state.
	}
	if err != nil {
		return fmt.Errorf("goals: keep what was measured: %w", err)
	}
	return nil
}
