package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/container"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/project"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The slots of the commands.
const (
	buildSlot = "build"
	runSlot   = "run"
)

// A command that ends by itself starts again after firstRestart, and after twice the last delay each time, up to
// lastRestart.
const (
	firstRestart = time.Second
	lastRestart  = 30 * time.Second
)

// lasting is how long a run command must have run for its restarts to begin anew.
const lasting = time.Minute

// restarts counts the ends of one run command.
type restarts struct {
	id     string
	starts int // the number of the start whose end was counted last
	failed int
	due    time.Time
}

// runs is where the last run command of one step was started. The next one in the same slot of the same pod kills it.
type runs struct {
	place     container.Place
	container string
}

// command builds and runs the application with the files that the container has.
func (l *Loop) command(plan *project.Plan, specs contract.Specs, place container.Place, tree worktree.Tree, status *contract.Status) time.Duration {
	inputs := sum(plan.Build, plan.Containers, tree.Root(), place)
	isBuilt, again := l.build(plan, place, inputs, status)
	if !isBuilt {
		if seen := l.slots.look(runSlot); seen.isSet && plan.Run != nil { // The last build goes on running.
			seen.command.Name = plan.Run.Name
			status.Run = &seen.command
		}
		return again
	}
	status.State = contract.BuildCommandExecuted
	command := plan.Run
	if specs.Options.Debug {
		command = plan.Debug
	}
	if command == nil {
		l.slots.stopSlot(runSlot)
		status.Message = "the devfile has no " + runKind(specs) + " command; nothing more is to be done"
		return 0
	}
	id := sum(command, plan.Containers, place)
	if !hotReload(*command) {
		id = sum(id, inputs)
	}
	return l.keepRunning(command, plan, place, id, status)
}

func runKind(specs contract.Specs) string {
	if specs.Options.Debug {
		return "debug"
	}
	return "run"
}

// build starts the build of some inputs, unless it runs, has succeeded or has failed.
func (l *Loop) build(plan *project.Plan, place container.Place, inputs string, status *contract.Status) (isBuilt bool, again time.Duration) {
	if plan.Build == nil {
		l.slots.stopSlot(buildSlot)
		return true, 0
	}
	seen := l.slots.look(buildSlot)
	if seen.id != inputs {
		l.slots.start(buildSlot, inputs, false, l.options.Output, func(ctx context.Context, output io.Writer) (int, error) {
			if l.isMarked(ctx, place, inputs) {
				return 0, nil // An earlier start, perhaps of another process, has built this.
			}
			exit, err := l.execute(ctx, plan, place, *plan.Build, buildSlot, inputs, output)
			if exit == 0 && err == nil {
				l.mark.Store(&inputs)
			}
			return exit, err
		})
		seen = l.slots.look(buildSlot)
	}
	seen.command.Name = plan.Build.Name
	status.Build = &seen.command
	switch {
	case !seen.isSet:
		return false, 0
	case seen.err != nil:
		// It is unknown how the build ended: the connection broke, or the container is gone.
		status.Message = "the build was interrupted: " + explain(seen.err)
		return false, l.retry(buildSlot, seen)
	case seen.command.Outcome == contract.Failed:
		status.Message = fmt.Sprintf("the build command %s failed with the exit code %d; it runs again at the next change", plan.Build.Name, seen.command.Exit)
	case seen.command.Outcome == contract.Running:
		status.Message = "the build command " + plan.Build.Name + " runs"
	}
	return seen.command.Outcome == contract.Succeeded, 0
}

// isMarked reports whether the build of some inputs has succeeded in the container. It asks the container only if this
// process has built the inputs last, or nothing so far.
func (l *Loop) isMarked(ctx context.Context, place container.Place, inputs string) bool {
	if last := l.mark.Load(); last != nil && *last != inputs {
		return false
	}
	mark, err := l.options.Containers.Mark(ctx, place, buildSlot)
	if err != nil {
		return false
	}
	l.mark.Store(&mark)
	return mark == inputs
}

// keepRunning starts the run command, unless it runs, and starts it again after a delay if it has ended.
func (l *Loop) keepRunning(command *project.Command, plan *project.Plan, place container.Place, id string, status *contract.Status) (again time.Duration) {
	start := func() {
		replaces := command.Exec != nil && l.running == runs{place, command.Exec.Container}
		l.running = runs{}
		if command.Exec != nil {
			l.running = runs{place, command.Exec.Container}
		}
		l.slots.start(runSlot, id, replaces, l.options.Output, func(ctx context.Context, output io.Writer) (int, error) {
			return l.execute(ctx, plan, place, *command, runSlot, "", output)
		})
	}
	seen := l.slots.look(runSlot)
	if seen.id != id {
		start()
		seen = l.slots.look(runSlot)
	}
	defer func() {
		seen.command.Name = command.Name
		status.Run = &seen.command
	}()
	if !seen.isSet {
		return 0
	}
	if seen.command.Outcome == contract.Running {
		status.State = contract.RunCommandRunning
		return 0
	}
	status.Message = fmt.Sprintf("the run command %s has ended with the exit code %d; it starts again after a delay, or at the next change", command.Name, seen.command.Exit)
	if seen.err != nil {
		status.Message = "the run command was interrupted: " + explain(seen.err)
	}
	return l.retry(runSlot, seen)
}

// retry returns how long to wait before a command that has ended may start again. When the time has come, it forgets
// the command, so that the next call starts it.
func (l *Loop) retry(name string, seen state) time.Duration {
	if l.restart.id != name+seen.id {
		l.restart = restarts{id: name + seen.id}
	}
	r := &l.restart
	if r.starts != seen.command.Starts {
		if seen.lasted >= lasting {
			r.failed = 0
		}
		r.failed++
		r.starts, r.due = seen.command.Starts, time.Now().Add(min(firstRestart<<min(r.failed-1, 10), lastRestart))
	}
	wait := time.Until(r.due)
	if wait > 0 {
		return wait
	}
	l.slots.stopSlot(name)
	return time.Nanosecond
}

// execute runs a command of the devfile in its containers, and returns the first exit code that is not 0. The mark is
// set after the success of the whole.
func (l *Loop) execute(ctx context.Context, plan *project.Plan, at container.Place, command project.Command, slot, mark string, output io.Writer) (exit int, err error) {
	if command.Exec == nil && mark != "" { // Steps may change what an earlier success has marked.
		if exit, err := l.options.Containers.Run(ctx, at, container.Command{Slot: slot, Line: ":", Directory: at.Project}, output); exit != 0 || err != nil {
			return exit, err
		}
	}
	switch {
	case command.Exec != nil:
		return l.executeExec(ctx, plan, at, command.Exec, slot, mark, output)
	case command.Apply != "":
		return 0, l.applyComponent(ctx, plan, command.Apply)
	case command.Parallel:
		exit, err = l.executeParallel(ctx, plan, at, command, slot, output)
	default:
		for i, step := range command.Steps {
			if exit, err = l.execute(ctx, plan, at, step, stepSlot(slot, i), "", output); exit != 0 || err != nil {
				break
			}
		}
	}
	if exit != 0 || err != nil || mark == "" {
		return exit, err
	}
	return l.options.Containers.Run(ctx, at, container.Command{Slot: slot, Line: ":", Directory: at.Project, Mark: mark}, output)
}

func stepSlot(slot string, step int) string { return fmt.Sprintf("%s-%d", slot, step) }

// executeParallel runs the steps of a composite command at once. The first failure stops the others.
func (l *Loop) executeParallel(ctx context.Context, plan *project.Plan, at container.Place, command project.Command, slot string, output io.Writer) (int, error) {
	group, exits := lifecycle.New(ctx), make([]int, len(command.Steps))
	for i, step := range command.Steps {
		group.Go("step "+step.Name, func(ctx context.Context) error {
			exit, err := l.execute(ctx, plan, at, step, stepSlot(slot, i), "", output)
			if exits[i] = exit; exit != 0 && err == nil {
				err = errStep
			}
			if err != nil {
				group.Stop()
			}
			return err
		})
	}
	err := group.Wait()
	if errors.Is(err, errStep) {
		for _, exit := range exits {
			if exit != 0 {
				return exit, nil
			}
		}
	}
	return 0, err
}

// errStep ends the other steps of a parallel command when one has failed.
var errStep = errors.New("a step has failed")

// executeExec runs a command in its container, which may be another one of the pod than the one with the project.
func (l *Loop) executeExec(ctx context.Context, plan *project.Plan, at container.Place, exec *project.Exec, slot, mark string, output io.Writer) (int, error) {
	in := containerNamed(plan, exec.Container)
	if in.Name != at.Container {
		at.Container, at.ID, at.Project = in.Name, "", in.ProjectSource
		pod, err := controller.Get[*corev1.Pod](ctx, l.client, types.NamespacedName{Namespace: at.Namespace, Name: at.Pod})
		if err != nil {
			return 0, fmt.Errorf("find the container %s: %w", in.Name, err)
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name == in.Name {
				at.ID = status.ContainerID
			}
		}
	}
	environment := map[string]string{}
	for _, variable := range exec.Env {
		environment[variable.Name] = variable.Value
	}
	return l.options.Containers.Run(ctx, at, container.Command{
		Slot: slot, Line: exec.Line, Directory: in.Directory(exec.WorkingDir), Env: environment, Mark: mark,
	}, output)
}

// hotReload reports whether a command loads changed files by itself.
func hotReload(command project.Command) bool {
	if command.Exec != nil {
		return command.Exec.HotReload
	}
	if len(command.Steps) == 0 {
		return false
	}
	return hotReload(command.Steps[len(command.Steps)-1])
}

// sum returns a hash of values that can be encoded as JSON.
func sum(values ...any) string {
	encoded, err := json.Marshal(values)
	if err != nil {
		panic(err) // Structs of strings and numbers can always be encoded.
	}
	hash := sha256.Sum256(encoded)
	return hex.EncodeToString(hash[:])
}
