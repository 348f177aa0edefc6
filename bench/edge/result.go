package edge

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

// Result is the outcome of a measurement. A file of it is kept in bench/edge/results.
type Result struct {
	Started    time.Time         `json:"started"`
	Machine    map[string]string `json:"machine"`
	Kubernetes string            `json:"kubernetes"`
	Note       string            `json:"note,omitempty"` // what a reader has to know, such as other work of the machine
	Settings   Settings          `json:"settings"`
	Cells      []Cell            `json:"cells"`
}

// of returns the cells of a form.
func (r Result) of(form string) (cells []Cell) {
	for _, cell := range r.Cells {
		if cell.Form == form {
			cells = append(cells, cell)
		}
	}
	return cells
}

// name returns the form and the setting of a cell.
func (c Cell) name() string {
	if c.Form == polling {
		return fmt.Sprintf("polling each %v", c.Interval)
	}
	return fmt.Sprintf("events, %d workers", c.Workers)
}

// readResult reads a result from a file.
func readResult(file string) (result Result, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return result, fmt.Errorf("read a result from %s: %w", file, err)
	}
	return result, nil
}

// writeFile writes a result to a file.
func (r Result) writeFile(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// print writes the result as JSON, or as a table.
func (r Result) print(out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", " ")
		return encoder.Encode(r)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "FORM\tCHANGES\tMEDIAN\tP99\tIDLE REQUESTS/min\tIDLE kB/min\tREQUESTS/min\tWRITES/min\tkB/min\t")
	for _, c := range r.Cells {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t\n", c.name(), c.Changes, seconds(c.Median), seconds(c.P99),
			c.Idle.Requests, c.Idle.Bytes/1000, c.Load.Requests, c.Load.Writes, c.Load.Bytes/1000)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// seconds formats seconds with a readable unit.
func seconds(value float64) string {
	if value < 1 {
		return fmt.Sprintf("%.3g ms", value*1000)
	}
	return fmt.Sprintf("%.3g s", value)
}
