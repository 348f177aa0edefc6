package simulation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// options are the values of the command line.
type options struct {
	objects, replicas []int
	cell              Cell // what all cells have in common
	real              bool
	out               folder
	pictures          string
	output            string
}

// Command returns the command that simulates cells, and shows their results.
func Command() *cobra.Command {
	var options options
	command := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate replicas that share objects, in virtual time",
		Long: `Simulate runs replicas that share objects over a fake API server, in virtual time, for each number
of objects with each number of replicas. It counts requests and bytes, and measures memory and
hand-overs. docs/simulation.md says what is simulated and what the numbers are.

The results are files of a folder. Cells that are there are not run again, so an interrupted
simulation resumes when it is started again. The table shows all cells of the folder. With
--real, the same cells run on a local control plane; each takes four minutes.

The simulation runs in a test binary, because virtual time (testing/synctest) exists only in
tests. The command builds it.`,
		Example: `  go run ./bench simulate --objects 1000,5000 --replicas 1,3,5 --out bin/simulation
  go run ./bench simulate --objects 1000000 --replicas 20 --caches three --out bin/simulation
  go run ./bench simulate --objects 5000 --replicas 3 --real --out bin/simulation`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			missing, err := options.missing()
			if err != nil {
				return err
			}
			if len(missing) > 0 {
				if err := options.run(command.Context(), missing); err != nil {
					return err
				}
			}
			results, err := options.out.all()
			if err != nil {
				return err
			}
			if options.pictures != "" {
				if err := draw(results, options.pictures); err != nil {
					return err
				}
			}
			return printResults(results, options.output == "json", os.Stdout)
		},
	}
	flags := command.Flags()
	flags.IntSliceVar(&options.objects, "objects", []int{1000, 5000}, fmt.Sprintf("numbers of objects: even, %d to %d; half of them are reconciled, and each of these has a child", minObjects, maxObjects))
	flags.IntSliceVar(&options.replicas, "replicas", []int{1, 3, 5}, fmt.Sprintf("numbers of replicas: %d to %d", minReplicas, maxReplicas))
	flags.Float64Var(&options.cell.Changes, "changes", DefaultChanges, fmt.Sprintf("changes of objects a second in the steady phase: 0 to %d", maxChanges))
	flags.Float64Var(&options.cell.Rate, "rate", DefaultRate, "bytes a second that a simulated replica receives and decodes: 1e5 to 1e10")
	flags.StringVar((*string)(&options.cell.Caches), "caches", string(All), "the replicas that have caches: all, three or none; what the others read is modelled")
	flags.BoolVar(&options.real, "real", false, "run the cells on a local control plane, in real time")
	flags.StringVar((*string)(&options.out), "out", "", "the folder for the results")
	flags.StringVar(&options.pictures, "pictures", "", "draw pictures of all results into this folder")
	flags.StringVarP(&options.output, "output", "o", "text", "text, or json: all results as one array; progress is on standard error")
	_ = command.MarkFlagRequired("out")
	return command
}

// missing returns the cells that have no result so far, by objects.
func (o options) missing() (cells []Cell, err error) {
	switch {
	case o.output != "text" && o.output != "json":
		return nil, fmt.Errorf("--output is %q; allowed are text and json", o.output)
	case o.real && o.cell.Caches != All:
		return nil, fmt.Errorf("--caches is %s with --real; allowed is all", o.cell.Caches)
	}
	slices.Sort(o.objects)
	for _, objects := range o.objects {
		for _, replicas := range o.replicas {
			cell := o.cell
			cell.Objects, cell.Replicas = objects, replicas
			if err := cell.validate(); err != nil {
				return nil, err
			}
			has, err := o.out.has(o.real, cell)
			if err != nil {
				return nil, err
			}
			if !has {
				cells = append(cells, cell)
			}
		}
	}
	return cells, nil
}

// run builds the test binary, and runs cells in it.
func (o options) run(ctx context.Context, cells []Cell) error {
	scratch, err := os.MkdirTemp("", "simulation-")
	if err != nil {
		return fmt.Errorf("making a folder for the test binary: %w", err)
	}
	defer os.RemoveAll(scratch)
	program := filepath.Join(scratch, "simulation.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "github.com/bellerophon-io/bellerophon/bench/simulation")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the test binary: %w", err)
	}
	var named []string
	for _, cell := range cells {
		named = append(named, fmt.Sprintf("%dx%d", cell.Objects, cell.Replicas))
	}
	run := exec.CommandContext(ctx, program, "-test.run", "^TestSimulate$", "-test.timeout", "0",
		"-cells", strings.Join(named, ","), "-changes", number(o.cell.Changes), "-rate", number(o.cell.Rate), "-out", string(o.out),
		"-caches", string(o.cell.Caches), "-real="+strconv.FormatBool(o.real))
	run.Stdout, run.Stderr = os.Stderr, os.Stderr
	if err := run.Run(); err != nil {
		return fmt.Errorf("simulating: %w", err)
	}
	return nil
}

func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }
