package controller_test

import "testing"

func TestTheExampleOfATestPasses(t *testing.T) { aDeploymentGetsAServiceInSpiteOfFaults(t) }
