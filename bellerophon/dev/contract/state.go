package contract

// State is how far an application has come. Each state includes the states before it.
type State string

// The states of an application, in order.
const (
	WaitDeployment       State = "WaitDeployment"       // the Deployment has no running pod of the wanted template
	WaitBindings         State = "WaitBindings"         // a service binding is not ready
	PodRunning           State = "PodRunning"           // the pod runs; its files differ from the project's
	FilesSynced          State = "FilesSynced"          // the pod has the files; the build of these files has not succeeded
	BuildCommandExecuted State = "BuildCommandExecuted" // the build has succeeded; the run command does not run
	RunCommandRunning    State = "RunCommandRunning"    // the run command runs what was built
)

// States lists the states in their order.
func States() []State {
	return []State{WaitDeployment, WaitBindings, PodRunning, FilesSynced, BuildCommandExecuted, RunCommandRunning}
}
