package scenario

import (
	"bufio"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestUsageIncludesDescendantsAndGrows(t *testing.T) {
	command := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & echo started; wait")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // Both of them.
		_ = command.Wait()
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the child does not speak")
	}
	family, err := familyOf(command.Process.Pid)
	if err != nil || len(family) != 2 {
		t.Fatalf("the family is %v: %v, want two processes", family, err)
	}
	usage, err := UsageOf(command.Process.Pid)
	if err != nil || usage.Resident < 2*100_000 || usage.Peak < usage.Resident || usage.CPU > time.Minute {
		t.Errorf("usage is %+v: %v", usage, err)
	}
	alone, err := UsageOf(family[1])
	if err != nil || alone.Resident >= usage.Resident {
		t.Errorf("the child alone: %+v: %v; both: %+v", alone, err, usage)
	}
}

func TestAProcessThatIsGoneIsAnError(t *testing.T) {
	command := exec.CommandContext(t.Context(), "true")
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	if usage, err := UsageOf(command.Process.Pid); err == nil {
		t.Errorf("usage of a process that is gone: %+v", usage)
	}
}

func TestTheMachineIsDescribed(t *testing.T) {
	machine := Machine()
	for _, key := range []string{"cores", "processor", "memory", "kernel", "system"} {
		if machine[key] == "" {
			t.Errorf("%s is missing in %v", key, machine)
		}
	}
}
