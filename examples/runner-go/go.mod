module runner-go

go 1.26.0

require github.com/jobgate/jobgate/clients/go v0.1.0

replace github.com/jobgate/jobgate/clients/go => ../../clients/go
