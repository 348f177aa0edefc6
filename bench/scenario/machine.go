package scenario

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
)

// Machine describes this machine for the head of a report.
func Machine() map[string]string {
	machine := map[string]string{
		"cores":  fmt.Sprint(runtime.NumCPU()),
		"system": runtime.GOOS + "/" + runtime.GOARCH,
	}
	system, err := procfs.NewDefaultFS()
	if err != nil {
		return machine
	}
	if processors, err := system.CPUInfo(); err == nil && len(processors) > 0 {
		machine["processor"] = processors[0].ModelName
	}
	if memory, err := system.Meminfo(); err == nil && memory.MemTotalBytes != nil {
		machine["memory"] = fmt.Sprintf("%.1f GiB", float64(*memory.MemTotalBytes)/(1<<30))
	}
	if load, err := system.LoadAvg(); err == nil {
		machine["load before the run"] = fmt.Sprintf("%.2f", load.Load1)
	}
	if release, err := system.SysctlStrings("kernel.osrelease"); err == nil {
		machine["kernel"] = strings.Join(release, " ")
	}
	return machine
}
